import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import type { Fault } from "./faults.ts";

/** The body of a request: JSON, or text that is none. */
export async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString("utf8");
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Sends an answer with what goes wrong with it. */
export async function send(
  response: ServerResponse,
  code: number,
  body: unknown,
  fault?: Fault,
  retryAfterSeconds?: number,
): Promise<void> {
  if (response.headersSent || response.socket?.destroyed) return;
  if (fault?.kind === "cut") {
    response.socket?.destroy();
    return;
  }
  const text = Buffer.from(JSON.stringify(body));
  response.writeHead(code, {
    "content-type": "application/json",
    "content-length": text.length,
    ...(retryAfterSeconds === undefined ? {} : { "retry-after": String(retryAfterSeconds) }),
  });
  if (fault?.kind === "half-answer") {
    response.write(text.subarray(0, Math.floor(text.length / 2)), () => response.socket?.destroy());
    return;
  }
  if (fault?.kind === "slow") {
    for (let at = 0; at < text.length && !response.destroyed; at += fault.bytes) {
      response.write(text.subarray(at, at + fault.bytes));
      await wait(fault.everyMs);
    }
    response.end();
    return;
  }
  response.end(text);
}
