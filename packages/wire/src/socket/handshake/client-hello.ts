import type { Duplex } from "node:stream";

/** What a client asks for in the first message of a TLS handshake, as far as it is of interest before the handshake. */
export interface ClientHello {
  /** ALPN names, in the client's order; empty when it offers none. */
  readonly protocols: readonly string[];
}

const RECORD_HEADER = 5;
const HANDSHAKE_RECORD = 22;
const CLIENT_HELLO = 1;
const RANDOM_AND_VERSION = 34;
const ALPN_EXTENSION = 16;
/** Real ones have 300 to 2,000 bytes, in one record or a few. */
const MAX_BYTES = 16_384;
const MAX_RECORDS = 16;

/**
 * Reads the ClientHello at the start of a connection (RFC 8446, sections 4.1.2 and 5.1; RFC 7301, section 3.1).
 *
 * @returns a number when the bytes end before it does: how many there must be before it is worth to try again
 * @throws RangeError when they are something else, or more comes behind it, or it is unusually long or cut up: hardly a server would go on with it
 */
export function parseClientHello(bytes: Buffer): ClientHello | number {
  const { message, end: recordEnd } = handshakeBytes(bytes);
  if (message.length > 0 && message[0] !== CLIENT_HELLO) throw new RangeError("expected a ClientHello");
  const end = message.length < 4 ? Number.POSITIVE_INFINITY : 4 + message.readUIntBE(1, 3);
  if (message.length < end) {
    if (bytes.length < MAX_BYTES) return recordEnd > bytes.length ? recordEnd : bytes.length + RECORD_HEADER;
    throw new RangeError(`expected a ClientHello of less than ${MAX_BYTES} bytes`);
  }
  // A client waits for the answer. In TLS 1.2 it could send its certificates at once, without any bound.
  if (message.length > end || recordEnd !== bytes.length) throw new RangeError("expected nothing behind a ClientHello");
  const body = message;
  let at = 4 + RANDOM_AND_VERSION;
  at += 1 + body.readUInt8(at);
  at += 2 + body.readUInt16BE(at);
  at += 1 + body.readUInt8(at);
  // No extensions at all, as the oldest clients send it.
  if (at === end) return { protocols: [] };
  at += 2;
  while (at < end) {
    const type = body.readUInt16BE(at);
    const length = body.readUInt16BE(at + 2);
    if (type === ALPN_EXTENSION) return { protocols: namesOf(body.subarray(at + 4, at + 4 + length)) };
    at += 4 + length;
  }
  return { protocols: [] };
}

/** The handshake message in the records that are there, as far as they go, and where the last of them ends; one message may be spread over several. */
function handshakeBytes(bytes: Buffer): { message: Buffer; end: number } {
  const parts: Buffer[] = [];
  let end = 0;
  while (end < bytes.length) {
    if (bytes[end] !== HANDSHAKE_RECORD) throw new RangeError("expected a TLS handshake");
    if (parts.length === MAX_RECORDS) throw new RangeError(`expected a ClientHello in at most ${MAX_RECORDS} records`);
    const start = end + RECORD_HEADER;
    if (start > bytes.length) return { message: Buffer.concat(parts), end: start };
    end = start + bytes.readUInt16BE(end + 3);
    parts.push(bytes.subarray(start, end));
  }
  return { message: Buffer.concat(parts), end };
}

function namesOf(extension: Buffer): string[] {
  const names: string[] = [];
  for (let at = 2; at < extension.length; ) {
    const length = extension.readUInt8(at);
    names.push(extension.toString("latin1", at + 1, at + 1 + length));
    at += 1 + length;
  }
  return names;
}

/**
 * Waits for the ClientHello of a fresh connection, and puts it back: the next reader starts from the first byte.
 *
 * @param done gets `undefined` when what arrived is no ClientHello; is not called when the connection ended or was destroyed before
 */
export function peekClientHello(socket: Duplex, done: (hello: ClientHello | undefined) => void): void {
  let bytes: Buffer = Buffer.alloc(0);
  let needed = RECORD_HEADER;
  const finish = (hello: ClientHello | undefined) => {
    socket.off("readable", onReadable);
    socket.unshift(bytes);
    done(hello);
  };
  const onReadable = () => {
    for (let chunk: Buffer | null = socket.read(); chunk !== null; chunk = socket.read()) {
      bytes = bytes.length === 0 ? chunk : Buffer.concat([bytes, chunk]);
    }
    if (bytes.length < needed) return;
    const hello = parsed(bytes);
    if (typeof hello === "number") needed = hello;
    else finish(hello);
  };
  socket.on("readable", onReadable);
}

function parsed(bytes: Buffer): ClientHello | number | undefined {
  try {
    return parseClientHello(bytes);
  } catch {
    return undefined;
  }
}
