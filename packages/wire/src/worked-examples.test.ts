import { describe, expect, test } from "vitest";
import { encodeHello, encodeResult, helloOf, resultHeadersFor } from "./channel/hello.ts";
import { DEFAULT_LIMITS, FrameParser, UNKNOWN_VERSION_RESPONSE } from "./frame/frame.ts";
import { Headers } from "./frame/headers.ts";
import { encodeMessage, type Message, messageOf, type Outgoing } from "./frame/message.ts";

const hex = (...lines: string[]): Buffer => Buffer.from(lines.join("").replaceAll(/\s/g, ""), "hex");
const ascii = (text: string): string => Buffer.from(text, "latin1").toString("hex");

function only(bytes: Buffer): Message {
  const messages: Message[] = [];
  new FrameParser(DEFAULT_LIMITS, (frame) => messages.push(messageOf(frame))).push(bytes);
  expect(messages.length).toBe(1);
  return messages[0]!;
}

const TOKEN = "c9f13c5e-0e11-4c50-9f6b-1e2d3c4b5a69";
const CLOCK = 1755720000123456789n;

const GO_HELLO = hex(
  "0306090c 00000000 ffffffff 2c000000 09000000",
  "ea030000 24000000",
  ascii(TOKEN),
  "347358675 66b505131",
);

const C_HELLO = hex(
  "0306090c 00000000 01000000 5b000000 14000000",
  "ea030000 24000000",
  ascii(TOKEN),
  "ff030000 01000000 01  09000000 01000000 01  0b000000 01000000 01",
  "07000000 0c000000",
  ascii("edge.default"),
  ascii("ziti-sdk-c[0]@host-1"),
);

const VERSION = "v1.6.20|d7878c55e070|2026-08-20 19:52:11|linux|amd64";

const LINK_HELLO = hex(
  `03 06 09 0c 00 00 00 00 ff ff ff ff 83 00 00 00
   16 00 00 00 00 00 00 00 24 00 00 00 35 62 31 63
   36 66 30 65 2d 38 66 35 61 2d 34 64 30 65 2d 62
   38 63 33 2d 33 61 31 66 30 62 39 64 32 65 37 37
   02 00 00 00 06 00 00 00 52 74 72 41 2e 31 03 00
   00 00 07 00 00 00 76 31 2e 36 2e 32 30 04 00 00
   00 00 00 00 00 05 00 00 00 04 00 00 00 01 00 00
   00 07 00 00 00 0c 00 00 00 6c 69 6e 6b 2e 64 65
   66 61 75 6c 74 09 00 00 00 01 00 00 00 01 0b 00
   00 00 01 00 00 00 01 34 51 79 56 68 59 30 47 79
   4e 71 46 70 73 78 32 5a 63 41 4b 59 65`,
);

describe("hello", () => {
  test("of a Go client", () => {
    expect(GO_HELLO.length).toBe(73);
    const message = only(GO_HELLO);
    expect(message.sequence).toBe(-1);
    const hello = helloOf(message);
    expect(hello.idToken).toBe("4sXgVkPQ1");
    expect(hello.headers.getString(1002)).toBe(TOKEN);
    expect(hello.headers.size).toBe(1);
    expect(encodeHello({ idToken: "4sXgVkPQ1", headers: new Headers().setString(1002, TOKEN) })).toEqual(GO_HELLO);
  });

  test("of the C client, which counts it as message 1, and asks for a group", () => {
    expect(C_HELLO.length).toBe(131);
    const message = only(C_HELLO);
    expect(message.sequence).toBe(1);
    const { headers, idToken } = helloOf(message);
    expect(idToken).toBe("ziti-sdk-c[0]@host-1");
    expect([headers.getBool(1023), headers.getBool(9), headers.getBool(11), headers.getString(7)]).toEqual([
      true,
      true,
      true,
      "edge.default",
    ]);
  });

  test("of an older C client", () => {
    const bytes = hex(
      "0306090c 00000000 01000000 35000000 10000000",
      "ea030000 24000000",
      ascii("11111111-2222-3333-4444-555555555555"),
      "ff030000 01000000 01",
      ascii("ziti-sdk-c[0]@vm"),
    );
    expect(bytes.length).toBe(89);
    const message = only(bytes);
    expect(message.headers.getString(1002)).toBe("11111111-2222-3333-4444-555555555555");
    expect(helloOf(message).idToken).toBe("ziti-sdk-c[0]@vm");
  });

  test("of a link, whose headers mean other things than elsewhere", () => {
    expect(LINK_HELLO.length).toBe(173);
    const { idToken, headers } = helloOf(only(LINK_HELLO));
    expect(idToken).toBe("4QyVhY0GyNqFpsx2ZcAKYe");
    expect(headers.getString(0)).toBe("5b1c6f0e-8f5a-4d0e-b8c3-3a1f0b9d2e77");
    expect([headers.getString(2), headers.getString(3), headers.getString(4), headers.getU32(5)]).toEqual([
      "RtrA.1",
      "v1.6.20",
      "",
      1,
    ]);
    expect([headers.getString(7), headers.getBool(9), headers.getBool(11)]).toEqual(["link.default", true, true]);
    expect(encodeHello({ idToken, headers })).toEqual(LINK_HELLO);
  });

  test("of half a split link, whose header 1 is one byte and no reply", () => {
    const bytes = encodeHello({ idToken: "l", headers: new Headers().setByte(1, 2) });
    const message = only(bytes);
    expect(message.replyFor).toBeUndefined();
    expect(helloOf(message).headers.getByte(1)).toBe(2);
  });
});

describe("result", () => {
  const expected = hex(
    "0306090c 02000000 ffffffff 77000000 00000000",
    "00000000 04000000 4a7a3871",
    "01000000 04000000 ffffffff",
    "02000000 01000000 01",
    "04000000 34000000",
    ascii(VERSION),
    "08000000 09000000",
    ascii("wRk0aZBn2"),
    "00040000 01000000 01",
  );
  const extra = new Headers().setString(4, VERSION).setBool(1024, true);

  test("of an edge router for the hello of a Go client", () => {
    expect(expected.length).toBe(139);
    const result = only(expected);
    expect(result.replyFor).toBeUndefined();
    expect(result.headers.getI32(1)).toBe(-1);
    const hello = only(GO_HELLO);
    const ours = encodeResult(
      resultHeadersFor(helloOf(hello), hello.sequence, { connectionId: "Jz8q", id: "wRk0aZBn2", extra }),
    );
    expect(sorted(only(ours))).toEqual(sorted(result));
    expect(ours.length).toBe(139);
    expect(only(ours).sequence).toBe(-1);
  });

  test("copies the sequence of the C client's hello, and returns what makes the group", () => {
    const hello = only(C_HELLO);
    const secret = hex("000102030405060708090a0b0c0d0e0f");
    const headers = resultHeadersFor(helloOf(hello), hello.sequence, {
      connectionId: "Jz8q",
      id: "wRk0aZBn2",
      extra,
      group: { type: "edge.default", secret },
    });
    expect(headers.get(1)?.toString("hex")).toBe("01000000");
    expect([headers.getString(7), headers.getBool(9), headers.get(10)]).toEqual(["edge.default", true, secret]);
  });

  test("of the synthetic exchange, as the real C client accepts it", () => {
    const bytes = hex(
      "0306090c 02000000 ffffffff 39000000 00000000",
      "00000000 06000000 636f6e6e2d31",
      "01000000 04000000 01000000",
      "02000000 01000000 01",
      "08000000 05000000 726f757431",
      "00040000 01000000 01",
    );
    const headers = resultHeadersFor({ idToken: "", headers: new Headers() }, 1, {
      connectionId: "conn-1",
      id: "rout1",
      extra: new Headers().setBool(1024, true),
    });
    expect(sorted(only(encodeResult(headers)))).toEqual(sorted(only(bytes)));
  });

  test("reflects headers 128 to 255 of the hello and no others", () => {
    const headers = new Headers().setU32(127, 1).setU32(128, 2).setU32(255, 3).setU32(256, 4);
    const result = resultHeadersFor({ idToken: "", headers }, -1, { connectionId: "c", id: "i" });
    expect([127, 128, 255, 256].map((key) => result.getU32(key))).toEqual([undefined, 2, 3, undefined]);
  });
});

test("the unknown-version response", () => {
  expect(UNKNOWN_VERSION_RESPONSE.toString("hex")).toBe("0306090a020000000100000002000000");
});

describe("messages", () => {
  const table: [string, Buffer, number, Outgoing][] = [
    ["ping", hex("0306090c 01000000 01000000 00000000 00000000"), 1, { contentType: 1 }],
    [
      "reply to the ping",
      hex("0306090c 02000000 07000000 15000000 00000000", "01000000 04000000 01000000", "02000000 01000000 01"),
      7,
      { contentType: 2, headers: new Headers().setI32(1, 1).setBool(2, true) },
    ],
    [
      "reply of a controller to the ping",
      hex("0306090c 02000000 07000000 15000000 02000000", "01000000 04000000 01000000", "02000000 01000000 01", "6f6b"),
      7,
      { contentType: 2, headers: new Headers().setI32(1, 1).setBool(2, true), body: Buffer.from("ok") },
    ],
    [
      "latency probe",
      hex("0306090c 03000000 05000000 10000000 00000000", "80000000 08000000 154d68b409925d18"),
      5,
      { contentType: 3, headers: new Headers().setU64(128, CLOCK) },
    ],
    [
      "reply to the latency probe",
      hex(
        "0306090c 02000000 09000000 25000000 00000000",
        "01000000 04000000 05000000  02000000 01000000 01  80000000 08000000 154d68b409925d18",
      ),
      9,
      { contentType: 2, headers: new Headers().setI32(1, 5).setBool(2, true).setU64(128, CLOCK) },
    ],
    [
      "heartbeat",
      hex("0306090c 05000000 0c000000 10000000 00000000", "05000000 08000000 154d68b409925d18"),
      12,
      { contentType: 5, headers: new Headers().setU64(5, CLOCK) },
    ],
    [
      "answer to a heartbeat",
      hex("0306090c 05000000 1f000000 10000000 00000000", "06000000 08000000 154d68b409925d18"),
      31,
      { contentType: 5, headers: new Headers().setU64(6, CLOCK) },
    ],
    ["reconnect ping", hex("0306090c dfffffff ffffffff 00000000 00000000"), -1, { contentType: -33 }],
    [
      "xgress payload",
      hex(`03 06 09 0c 4c 04 00 00 29 00 00 00 44 00 00 00
           05 00 00 00 d0 08 00 00 16 00 00 00 35 65 73 76
           35 36 30 58 58 64 33 31 32 4b 5a 57 48 62 75 6b
           42 4e d1 08 00 00 08 00 00 00 07 00 00 00 00 00
           00 00 d2 08 00 00 04 00 00 00 02 00 00 00 d4 08
           00 00 02 00 00 00 2b 1a 68 65 6c 6c 6f`),
      41,
      {
        contentType: 1100,
        headers: new Headers()
          .setString(2256, "5esv560XXd312KZWHbukBN")
          .setU64(2257, 7n)
          .setU32(2258, 2)
          .setU16(2260, 0x1a2b),
        body: Buffer.from("hello"),
      },
    ],
    [
      "xgress acknowledgement",
      hex(`03 06 09 0c 4d 04 00 00 2a 00 00 00 34 00 00 00
           04 00 00 00 d4 08 00 00 02 00 00 00 2b 1a d0 08
           00 00 16 00 00 00 35 65 73 76 35 36 30 58 58 64
           33 31 32 4b 5a 57 48 62 75 6b 42 4e d3 08 00 00
           04 00 00 00 05 00 00 00 00 00 00 07`),
      42,
      {
        contentType: 1101,
        headers: new Headers().setU16(2260, 0x1a2b).setString(2256, "5esv560XXd312KZWHbukBN").setU32(2259, 5),
        body: hex("00000007"),
      },
    ],
    [
      "answer to a bind",
      hex(
        "0306090c 70ed0000 01000000 21000000 00000000",
        "01000000 04000000 02000000  e8030000 04000000 00000000  f4030000 01000000 01",
      ),
      1,
      { contentType: 60784, headers: new Headers().setI32(1, 2).setU32(1000, 0).setBool(1012, true) },
    ],
    [
      "refused connect",
      hex(
        "0306090c 71ed0000 09000000 18000000 0f000000",
        "01000000 04000000 01000000  e8030000 04000000 01000000",
        ascii("Invalid Session"),
      ),
      9,
      { contentType: 60785, headers: new Headers().setI32(1, 1).setU32(1000, 1), body: Buffer.from("Invalid Session") },
    ],
    [
      "success of a dial",
      hex(
        "0306090c 74ed0000 05000000 18000000 04000000",
        "01000000 04000000 07000000  e8030000 04000000 01000000  00000080",
      ),
      5,
      { contentType: 60788, headers: new Headers().setI32(1, 7).setU32(1000, 1), body: hex("00000080") },
    ],
  ];

  test.each(table)("%s", (_name, bytes, sequence, out) => {
    expect(encodeMessage(out, sequence).toString("hex")).toBe(bytes.toString("hex"));
    const message = only(bytes);
    expect(message.contentType).toBe(out.contentType);
    expect(message.sequence).toBe(sequence);
    expect(message.body.equals(out.body ?? Buffer.alloc(0))).toBe(true);
    expect(sorted(message)).toEqual(
      [...(out.headers?.entries() ?? [])].map(([k, v]) => `${k}=${v.toString("hex")}`).toSorted(),
    );
  });
});

function sorted(message: Message): string[] {
  return [...message.headers.entries()].map(([key, value]) => `${key}=${value.toString("hex")}`).toSorted();
}
