/** What replicas of one network ask of each other, and the messages it is asked with. Source: docs/protocol/replicas.md, "Calls". */
import { Headers, type Message, type Outgoing, ProtocolError } from "@sallyport/wire";
import type { z } from "zod";

/** The ALPN name of the channels between replicas. */
export const REPLICA_ALPN = "sallyport-replica";

const Type = { Question: 30_100, Part: 30_101, Answer: 30_102, Notice: 30_103 } as const;
export const CallType: Readonly<typeof Type> = Type;

const Header = { Call: 1_200, Name: 1_201, Failure: 1_202 } as const;

/** One question that any replica may be asked. Both sides hold what comes against the schemas. */
export interface Call<Q = unknown, A = unknown, I = never> {
  readonly name: string;
  readonly question: z.ZodType<Q>;
  readonly answer: z.ZodType<A>;
  /** Of an answer that has a list of any length: its entries. They travel in parts. */
  readonly item?: z.ZodType<I>;
}

export interface Answer<A, I> {
  readonly value: A;
  readonly items: readonly I[];
}

/** The messages of a call, written and read. */
export function question(id: number, name: string, value: unknown): Outgoing {
  return message(Type.Question, id, value, new Headers().setString(Header.Name, name));
}

export function part(id: number, items: readonly unknown[]): Outgoing {
  return message(Type.Part, id, items);
}

export function answer(id: number, value: unknown): Outgoing {
  return message(Type.Answer, id, value);
}

export function failure(id: number, reason: string): Outgoing {
  return message(Type.Answer, id, null, new Headers().setString(Header.Failure, reason));
}

/** What a replica tells one that asked to be told. */
export function notice(name: string, json: string): Outgoing {
  return {
    contentType: Type.Notice,
    headers: new Headers().setString(Header.Name, name),
    body: Buffer.from(json, "utf8"),
  };
}

/** @throws ProtocolError when the message names no call */
export function callOf({ headers }: Message): number {
  const bytes = headers.get(Header.Call);
  if (bytes?.length !== 4) throw new ProtocolError("NO_CALL", "expected the number of a call in header 1200");
  return bytes.readUInt32LE();
}

export function nameOf({ headers }: Message): string {
  return headers.getString(Header.Name) ?? "";
}

export function failureOf({ headers }: Message): string | undefined {
  return headers.getString(Header.Failure);
}

/** @throws SyntaxError */
export function jsonOf({ body }: Message): unknown {
  return JSON.parse(body.toString("utf8"));
}

function message(contentType: number, id: number, value: unknown, headers = new Headers()): Outgoing {
  const call = Buffer.allocUnsafe(4);
  call.writeUInt32LE(id);
  return { contentType, headers: headers.set(Header.Call, call), body: Buffer.from(JSON.stringify(value), "utf8") };
}
