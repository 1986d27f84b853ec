import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ProtocolError } from "../errors.ts";
import {
  DEFAULT_LIMITS,
  FRAME_PREFIX_LENGTH,
  FrameParser,
  type FrameView,
  HELLO_LIMITS,
  writeFramePrefix,
} from "./frame.ts";
import { Headers } from "./headers.ts";
import { encodeMessage, type Message, messageOf } from "./message.ts";

const PING = Buffer.from("0306090c0100000001000000 0000000000000000".replaceAll(" ", ""), "hex");

function collect(limits = DEFAULT_LIMITS): { parser: FrameParser; messages: Message[] } {
  const messages: Message[] = [];
  const parser = new FrameParser(limits, (frame) => messages.push(messageOf(frame)));
  return { parser, messages };
}

function codeOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    if (error instanceof ProtocolError) return error.code;
    throw error;
  }
  return "none";
}

const outgoing = fc.record({
  contentType: fc.integer({ min: -2147483648, max: 2147483647 }),
  headers: fc
    .uniqueArray(fc.tuple(fc.integer({ min: 0, max: 3000 }), fc.uint8Array({ maxLength: 60 })), {
      maxLength: 6,
      selector: ([key]) => key,
    })
    .map((entries) => entries.reduce((headers, [key, value]) => headers.set(key, value), new Headers())),
  body: fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.integer({ min: 0, max: 70_000 }).map((n) => Buffer.alloc(n, n)),
  ),
});

describe("a stream of frames", () => {
  test("is understood whatever way it is split", () => {
    fc.assert(
      fc.property(
        fc.array(outgoing, { minLength: 1, maxLength: 8 }),
        fc.array(fc.integer({ min: 1, max: 20_000 }), { minLength: 1, maxLength: 20 }),
        (outs, cuts) => {
          const stream = Buffer.concat(outs.map((out, i) => encodeMessage(out, i)));
          const { parser, messages } = collect();
          // One buffer for all reads, overwritten after each: nothing may stay in it.
          const read = Buffer.alloc(20_000);
          for (let at = 0, turn = 0; at < stream.length; turn++) {
            const length = Math.min(cuts[turn % cuts.length] ?? 1, stream.length - at);
            stream.copy(read, 0, at, at + length);
            expect(parser.push(read, 0, length)).toBe(length);
            read.fill(0xee);
            at += length;
          }
          expect(parser.bufferedBytes).toBe(0);
          expect(messages.length).toBe(outs.length);
          for (const [i, message] of messages.entries()) {
            const out = outs[i]!;
            expect(message.contentType).toBe(out.contentType);
            expect(message.sequence).toBe(i);
            expect(message.body.equals(out.body)).toBe(true);
            expect([...message.headers.entries()].map(([k, v]) => [k, v.toString("hex")])).toEqual(
              [...out.headers.entries()].map(([k, v]) => [k, v.toString("hex")]),
            );
          }
        },
      ),
      { numRuns: 150 },
    );
  });

  test("of random bytes gives nothing but a ProtocolError and never takes more memory than its limits", () => {
    const limits = { maxHeaders: 500, maxBody: 1_000 };
    const most = FRAME_PREFIX_LENGTH + limits.maxHeaders + limits.maxBody;
    const garbage = fc.oneof(
      fc.uint8Array({ maxLength: 100 }),
      // A right prefix with arbitrary lengths, near the limits and far beyond, then arbitrary bytes.
      fc
        .tuple(
          fc.oneof(fc.nat(600), fc.integer({ min: 0, max: 0xffffffff })),
          fc.oneof(fc.nat(1_200), fc.integer({ min: 0, max: 0xffffffff })),
          fc.uint8Array({ maxLength: 2_000 }),
        )
        .map(([headers, body, rest]) => {
          const prefix = Buffer.alloc(FRAME_PREFIX_LENGTH);
          writeFramePrefix(prefix, 0, 7, 1, headers, body);
          return Buffer.concat([prefix, rest]);
        }),
    );
    fc.assert(
      fc.property(fc.array(garbage, { maxLength: 12 }), (chunks) => {
        const { parser } = collect(limits);
        try {
          for (const chunk of chunks) {
            parser.push(Buffer.from(chunk));
            expect(parser.bufferedBytes).toBeLessThan(most);
            expect(parser.reservedBytes).toBeLessThanOrEqual(Math.max(4_096, most));
          }
        } catch (error) {
          if (!(error instanceof ProtocolError)) throw error;
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("the parser", () => {
  test("hands a whole frame out in place", () => {
    const chunk = Buffer.concat([Buffer.alloc(3), PING, PING]);
    const seen: { same: boolean; start: number; end: number }[] = [];
    const parser = new FrameParser(DEFAULT_LIMITS, (frame) =>
      seen.push({ same: frame.buffer === chunk, start: frame.start, end: frame.end }),
    );
    parser.push(chunk, 3);
    expect(seen).toEqual([
      { same: true, start: 3, end: 23 },
      { same: true, start: 23, end: 43 },
    ]);
  });

  test("refuses another magic as soon as four bytes are there", () => {
    const { parser } = collect();
    parser.push(Buffer.from("GE"));
    expect(codeOf(() => parser.push(Buffer.from("T ")))).toBe("BAD_MAGIC");
    expect(codeOf(() => collect().parser.push(Buffer.from("0306090a0200000001000000", "hex")))).toBe("BAD_MAGIC");
    expect(codeOf(() => collect().parser.push(Buffer.concat([PING, Buffer.from("xxxx")])))).toBe("BAD_MAGIC");
  });

  test.each([
    ["headers", 16_385, 0],
    ["body", 0, 4_193],
    ["the largest number there is", 0xffffffff, 0xffffffff],
  ])("refuses a frame whose %s is over the limit before storing it", (_what, headers, body) => {
    const prefix = Buffer.alloc(FRAME_PREFIX_LENGTH);
    writeFramePrefix(prefix, 0, 0, -1, headers, body);
    const { parser } = collect(HELLO_LIMITS);
    expect(codeOf(() => parser.push(prefix))).toBe("FRAME_TOO_LARGE");
    expect(parser.reservedBytes).toBe(0);
  });

  test("accepts a frame exactly at the limits", () => {
    const headers = new Headers().set(1002, Buffer.alloc(16_384 - 8, 0x61));
    const { parser, messages } = collect(HELLO_LIMITS);
    parser.push(encodeMessage({ contentType: 0, headers, body: Buffer.alloc(4_192) }, -1));
    expect(messages[0]?.body.length).toBe(4_192);
    expect(messages[0]?.headers.get(1002)?.length).toBe(16_376);
  });

  test("does not reserve what a peer only announces", () => {
    const prefix = Buffer.alloc(FRAME_PREFIX_LENGTH + 10);
    writeFramePrefix(prefix, 0, 1, 1, 0, 16 * 1024 * 1024);
    const { parser } = collect();
    parser.push(prefix);
    expect(parser.bufferedBytes).toBe(30);
    expect(parser.reservedBytes).toBeLessThanOrEqual(4_096);
  });

  test("gives the memory of a large frame back, and keeps that of ordinary ones", () => {
    const { parser } = collect();
    const large = encodeMessage({ contentType: 9, body: Buffer.alloc(1_000_000) }, 1);
    parser.push(large.subarray(0, 500_000));
    parser.push(large.subarray(500_000));
    expect(parser.reservedBytes).toBe(0);
    parser.push(PING.subarray(0, 5));
    parser.push(PING.subarray(5));
    expect(parser.reservedBytes).toBe(4_096);
  });

  test("stops after the frame at hand when told to, and says where", () => {
    const seen: number[] = [];
    const parser: FrameParser = new FrameParser(DEFAULT_LIMITS, (frame: FrameView) => {
      seen.push(frame.start);
      parser.stop();
    });
    const chunk = Buffer.concat([PING, PING, PING]);
    expect(parser.push(chunk)).toBe(20);
    expect(parser.push(chunk, 20)).toBe(40);
    parser.push(PING.subarray(0, 7));
    expect(parser.push(chunk.subarray(7))).toBe(13);
    expect(seen.length).toBe(3);
  });
});
