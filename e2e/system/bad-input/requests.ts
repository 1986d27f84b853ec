import type { RawAnswer } from "../../network/raw-peer.ts";

/** A request with its length, after which the connection is closed. */
export const requestText = (
  method: string,
  path: string,
  headers: Record<string, string>,
  body: string | Buffer = "",
): Buffer =>
  Buffer.concat([
    Buffer.from(
      [
        `${method} ${path} HTTP/1.1`,
        "Host: localhost",
        "Connection: close",
        ...Object.entries({ ...headers, "Content-Length": String(Buffer.byteLength(body)) }).map((h) => h.join(": ")),
        "\r\n",
      ].join("\r\n"),
    ),
    Buffer.from(body),
  ]);

/** Every value of a header, in lower case. */
export const valuesOf = (answer: RawAnswer, name: string): string[] =>
  answer.headers.filter(([each]) => each.toLowerCase() === name).map(([, value]) => value);

/** The error of an answer that holds one. */
export const errorOf = (answer: RawAnswer) =>
  (JSON.parse(answer.body) as { error: { code: string; cause?: Record<string, string> } }).error;
