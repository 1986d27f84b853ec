import { readFile } from "node:fs/promises";
import { decodeControl, mgmtPb } from "@sallyport/wire";

/** The records of a trace file, whole ones only. */
export async function traceRecords(path: string): Promise<(mgmtPb.ChannelState | mgmtPb.TraceEvent)[]> {
  const bytes = await readFile(path);
  const found: (mgmtPb.ChannelState | mgmtPb.TraceEvent)[] = [];
  for (let at = 0; at + 8 <= bytes.length; ) {
    const body = bytes.subarray(at + 8, at + 8 + bytes.readInt32LE(at + 4));
    const isState = bytes.readInt32LE(at) === 0;
    found.push(decodeControl(isState ? mgmtPb.ChannelStateSchema : mgmtPb.TraceEventSchema, body));
    at += 8 + body.length;
  }
  return found;
}

/** What a record says of its message. */
export function decodedOf({ decode }: mgmtPb.TraceEvent): unknown {
  return decode.length === 0 ? undefined : JSON.parse(Buffer.from(decode).toString("utf8"));
}
