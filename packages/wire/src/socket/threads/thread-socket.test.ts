import { expect, test } from "vitest";
import { Op, TELL_AT } from "./messages.ts";
import { ThreadSocket } from "./thread-socket.ts";

test("what is read later is told to the thread, also without a call of `resume`", async () => {
  let taken = 0;
  const say = (op: Op, _connection: number, count = 0): void => {
    if (op === Op.taken) taken += count;
  };
  const socket = new ThreadSocket({ connection: 1, user: "edge", certificates: [] }, { data: () => {}, say });
  for (let i = 0; i < 4; i++) socket.arrived(Buffer.alloc(TELL_AT, i));
  expect(taken).toBe(0);
  let read = 0;
  for await (const bytes of socket as AsyncIterable<Buffer>) {
    read += bytes.length;
    if (read === 4 * TELL_AT) break;
  }
  expect(taken).toBe(4 * TELL_AT);
});
