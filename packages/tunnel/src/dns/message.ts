/**
 * The little of DNS that the name server speaks (docs/tunnel/interception.md, "Names"): one question in, one answer out.
 * Answers echo the question's bytes, are never compressed and carry no EDNS.
 */

export const RecordType = { A: 1, AAAA: 28, OPT: 41 } as const;
export const ResponseCode = { NoError: 0, FormatError: 1, ServerFailure: 2, NotImplemented: 4, Refused: 5 } as const;
export type ResponseCode = (typeof ResponseCode)[keyof typeof ResponseCode];

const HEADER = 12;
const IS_RESPONSE = 0x8000;
const IS_AUTHORITATIVE = 0x0400;
const IS_TRUNCATED = 0x0200;
const OPCODE = 0x7800;
const NOTIFY = 4;
/** Recursion desired and checking disabled: copied into the answer. */
const COPIED = 0x0110;
/** A name's bytes at most, lengths of labels and final zero included. */
const MAX_NAME_BYTES = 255;

export interface DnsQuestion {
  /** Lower-case, without the final dot. */
  readonly name: string;
  readonly type: number;
  /** Offsets of the question's bytes in the query. */
  readonly start: number;
  readonly end: number;
}

/** What to do with a datagram: answer its question, answer with an error, or nothing at all. */
export type Parsed =
  | { readonly kind: "question"; readonly question: DnsQuestion }
  | { readonly kind: "error"; readonly code: ResponseCode }
  | { readonly kind: "ignore" };

/** Reads a query; every datagram has an outcome. */
export function parseQuery(query: Buffer): Parsed {
  // What has no whole header, or is an answer itself, is never answered: two servers would answer each other without end.
  if (query.length < HEADER) return { kind: "ignore" };
  const flags = query.readUInt16BE(2);
  if ((flags & IS_RESPONSE) !== 0) return { kind: "ignore" };
  const opcode = (flags & OPCODE) >> 11;
  if (opcode !== 0 && opcode !== NOTIFY) return { kind: "error", code: ResponseCode.NotImplemented };
  if (query.readUInt16BE(4) !== 1) return { kind: "error", code: ResponseCode.FormatError };
  const question = readQuestion(query, HEADER);
  return question === undefined ? { kind: "error", code: ResponseCode.FormatError } : { kind: "question", question };
}

/** An answer with one address, or without any. */
export function encodeAnswer(
  query: Buffer,
  question: DnsQuestion,
  address: Buffer | undefined,
  ttlSeconds: number,
): Buffer {
  const asked = query.subarray(question.start, question.end);
  const name = asked.subarray(0, asked.length - 4);
  const header = answerHeader(query, IS_AUTHORITATIVE, ResponseCode.NoError, 1, address === undefined ? 0 : 1);
  if (address === undefined) return Buffer.concat([header, asked]);
  const record = Buffer.alloc(10);
  record.writeUInt16BE(address.length === 4 ? RecordType.A : RecordType.AAAA, 0);
  record.writeUInt16BE(1, 2);
  record.writeUInt32BE(ttlSeconds, 4);
  record.writeUInt16BE(address.length, 8);
  return Buffer.concat([header, asked, name, record, address]);
}

/** An answer without records; it echoes the question where there is one. */
export function encodeError(query: Buffer, code: ResponseCode, question?: DnsQuestion): Buffer {
  const asked = question === undefined ? Buffer.alloc(0) : query.subarray(question.start, question.end);
  return Buffer.concat([answerHeader(query, 0, code, question === undefined ? 0 : 1, 0), asked]);
}

/** The answer of another server cut down to its question, with the mark that there was more. */
export function truncated(answer: Buffer, questionEnd: number): Buffer {
  const cut = Buffer.from(answer.subarray(0, questionEnd));
  cut.writeUInt16BE(cut.readUInt16BE(2) | IS_TRUNCATED, 2);
  cut.fill(0, 6, HEADER);
  return cut;
}

/** True when `answer` is a response to this very query under the id `id`. */
export function answers(answer: Buffer, id: number, query: Buffer, question: DnsQuestion): boolean {
  return (
    answer.length >= question.end &&
    answer.readUInt16BE(0) === id &&
    (answer.readUInt16BE(2) & IS_RESPONSE) !== 0 &&
    answer.readUInt16BE(4) === 1 &&
    answer.subarray(question.start, question.end).equals(query.subarray(question.start, question.end))
  );
}

/** Bytes that the sender of the query takes in a datagram: what its OPT record says, between 512 and 4096. */
export function payloadLimit(query: Buffer, question: DnsQuestion): number {
  const additional = query.readUInt16BE(10);
  const others = query.readUInt16BE(6) + query.readUInt16BE(8);
  const at = question.end;
  // A query holds no other records in practice; with any, the limit of plain DNS is safe.
  if (additional !== 1 || others !== 0 || query.length < at + 11 || query[at] !== 0) return 512;
  if (query.readUInt16BE(at + 1) !== RecordType.OPT) return 512;
  return Math.min(Math.max(query.readUInt16BE(at + 3), 512), 4096);
}

function answerHeader(query: Buffer, flags: number, code: ResponseCode, questions: number, records: number): Buffer {
  const header = Buffer.alloc(HEADER);
  const asked = query.readUInt16BE(2);
  header.writeUInt16BE(query.readUInt16BE(0), 0);
  header.writeUInt16BE(IS_RESPONSE | flags | (asked & (OPCODE | COPIED)) | code, 2);
  header.writeUInt16BE(questions, 4);
  header.writeUInt16BE(records, 6);
  return header;
}

function readQuestion(query: Buffer, start: number): DnsQuestion | undefined {
  const labels: string[] = [];
  let at = start;
  for (;;) {
    const length = query[at];
    // Pointers and reserved forms have no place in the only question of a message.
    if (length === undefined || length > 63) return undefined;
    at++;
    if (length === 0) break;
    if (at + length > query.length || at + length - start > MAX_NAME_BYTES - 1) return undefined;
    labels.push(labelText(query.subarray(at, at + length)));
    at += length;
  }
  if (at + 4 > query.length) return undefined;
  return { name: labels.join("."), type: query.readUInt16BE(at), start, end: at + 4 };
}

/** Lower-case; bytes that would be taken for something else (dots, controls) are written as escapes, so that no two labels look alike. */
function labelText(label: Buffer): string {
  let text = "";
  for (const byte of label) {
    if (byte >= 0x41 && byte <= 0x5a) text += String.fromCharCode(byte + 0x20);
    else if (byte > 0x20 && byte < 0x7f && byte !== 0x2e && byte !== 0x5c) text += String.fromCharCode(byte);
    else text += `\\${String(byte).padStart(3, "0")}`;
  }
  return text;
}
