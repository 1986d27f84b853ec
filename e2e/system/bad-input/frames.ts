import { encodeMessage, Headers } from "@sallyport/wire";

/** A whole hello, with the id that it claims. */
export const helloOf = (idToken: string, headers = new Headers()): Buffer =>
  encodeMessage({ contentType: 0, headers, body: Buffer.from(idToken) }, -1);

/** The fixed beginning of a message, whatever it announces. */
export function prefix(headersLength: number, bodyLength: number, contentType = 0): Buffer {
  const bytes = Buffer.alloc(20);
  bytes.write("0306090c", "hex");
  bytes.writeInt32LE(contentType, 4);
  bytes.writeInt32LE(-1, 8);
  bytes.writeUInt32LE(headersLength, 12);
  bytes.writeUInt32LE(bodyLength, 16);
  return bytes;
}
