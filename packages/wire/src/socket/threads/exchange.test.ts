import { describe, expect, test } from "vitest";
import { type Batch, Exchange, type Loan, type Receiver } from "./exchange.ts";
import { Op } from "./messages.ts";

/** Two ends in one thread; what is posted crosses as it does between threads, when the test says so. */
function pair(receiver: Partial<Receiver<string>>) {
  const posted: Batch<string>[] = [];
  const home: Batch<string>[] = [];
  const quiet: Receiver<string> = { data: () => {}, op: () => {}, note: () => {}, ...receiver };
  const cross =
    (to: Batch<string>[]) =>
    (batch: Batch<string>, transfer: readonly unknown[]): void => {
      to.push(structuredClone(batch, { transfer: transfer as ArrayBuffer[] }));
    };
  return {
    posted,
    home,
    near: new Exchange<string, string>(cross(posted), quiet),
    far: new Exchange<string, string>(cross(home), quiet),
  };
}

describe("an exchange between threads", () => {
  test("hands over everything of a turn at once, in order, runs of a connection as one", async () => {
    const seen: unknown[] = [];
    const { near, far, posted } = pair({
      data: (connection, bytes) => seen.push([connection, bytes.toString()]),
      op: (op, connection, count) => seen.push([op, connection, count]),
      note: (note) => seen.push(note),
    });
    near.note("first");
    near.data(1, Buffer.from("a"));
    near.data(1, Buffer.from("b"));
    near.data(2, Buffer.from("c"));
    near.note("between");
    near.say(Op.end, 2);
    near.data(1, Buffer.from("d"));
    near.note("last");
    expect(posted).toEqual([]);
    await new Promise((resolve) => setImmediate(resolve));
    expect(posted.length).toBe(1);
    far.receive(posted[0] as Batch<string>);
    expect(seen).toEqual(["first", [1, "ab"], [2, "c"], "between", [Op.end, 2, 0], [1, "d"], "last"]);
  });

  test("carries more than a slab, and says when too much is with the other end", () => {
    let got = Buffer.alloc(0);
    const { near, far, posted, home } = pair({
      data: (_connection, bytes) => {
        got = Buffer.concat([got, bytes]);
      },
    });
    const sent = Buffer.from(Uint32Array.from({ length: 600_000 }, (_, i) => i).buffer);
    for (let round = 0; round < 2; round++) near.data(7, sent);
    near.flush();
    expect(near.isFull).toBe(true);
    for (const batch of posted.splice(0)) far.receive(batch);
    expect(got.equals(Buffer.concat([sent, sent]))).toBe(true);
    far.flush();
    for (const batch of home.splice(0)) near.receive(batch);
    expect(near.isFull).toBe(false);
  });

  test("fills the same memory again, but none that is still in use", () => {
    const kept: { bytes: Buffer; loan: Loan }[] = [];
    const { near, far, posted, home } = pair({
      data: (_connection, bytes, loan) => {
        loan.retain();
        kept.push({ bytes, loan });
      },
    });
    const turn = (text: string): void => {
      near.data(1, Buffer.from(text));
      near.flush();
      for (const batch of posted.splice(0)) far.receive(batch);
      far.flush();
      for (const batch of home.splice(0)) near.receive(batch);
    };
    turn("one");
    turn("two");
    expect(kept.map(({ bytes }) => bytes.toString())).toEqual(["one", "two"]);
    for (const { loan } of kept.splice(0)) loan.release();
    turn("three");
    expect(kept[0]?.bytes.toString()).toBe("three");
    // The two that were released came home and crossed again as they were: their old bytes are behind the new ones.
    const { bytes } = kept[0] as { bytes: Buffer };
    turn("four");
    expect(bytes.toString()).toBe("three");
  });

  test("lends a bounded number of slabs to those who wait for long; what they would keep of others is copied", () => {
    const run = Buffer.alloc(10_000, 1);
    const kept: Loan[] = [];
    let copies = 0;
    const { near, far, posted, home } = pair({
      data: (_connection, _bytes, loan) => {
        if (loan.retain()) kept.push(loan);
        else copies++;
      },
    });
    const turns = (count: number): void => {
      for (let turn = 0; turn < count; turn++) {
        near.data(turn, run);
        near.flush();
        for (const batch of posted.splice(0)) far.receive(batch);
      }
    };
    turns(500);
    expect([kept.length, copies]).toEqual([32, 468]);
    far.flush();
    expect(home.flatMap(({ empty }) => empty)).toHaveLength(468);
    for (const loan of kept.splice(0)) loan.release();
    turns(1);
    expect([kept.length, copies]).toEqual([1, 468]);
  });
});
