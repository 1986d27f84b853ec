import { describe, expect, test } from "vitest";
import { firstBytes } from "../../testing/client-hello.ts";
import { parseClientHello } from "./client-hello.ts";

/** The same message in records of at most `size` bytes. */
function inRecords(bytes: Buffer, size: number): Buffer {
  const message = bytes.subarray(5);
  const records: Buffer[] = [];
  for (let at = 0; at < message.length; at += size) {
    const part = message.subarray(at, at + size);
    records.push(Buffer.from([22, 3, 1, part.length >> 8, part.length & 0xff]), part);
  }
  return Buffer.concat(records);
}

describe("a ClientHello", () => {
  test.each(["TLSv1.2", "TLSv1.3"] as const)("tells its ALPN names in order (%s)", async (version) => {
    const protocols = ["ziti-ctrl", "h2", "http/1.1"];
    const bytes = await firstBytes({ servername: "ctrl.example", ALPNProtocols: protocols, maxVersion: version });
    expect(parseClientHello(bytes)).toEqual({ protocols });
    for (const size of [200, 300]) expect(parseClientHello(inRecords(bytes, size))).toEqual({ protocols });
    expect(parseClientHello(await firstBytes({ maxVersion: version }))).toEqual({ protocols: [] });
  });

  test("is waited for as long as it is a beginning of one", async () => {
    const bytes = await firstBytes({ ALPNProtocols: ["h2"] });
    for (const whole of [bytes, inRecords(bytes, 100)]) {
      for (let length = 0; length < whole.length; length++) {
        const needed = parseClientHello(whole.subarray(0, length));
        expect(needed).toBeTypeOf("number");
        expect(needed).toBeGreaterThan(length);
        expect(needed).toBeLessThanOrEqual(whole.length + 5);
      }
    }
  });

  test("is not what something else sends, nor has lengths that lie or no end", async () => {
    const bytes = await firstBytes({ ALPNProtocols: ["h2"] });
    expect(() => parseClientHello(Buffer.from("GET / HTTP/1.1\r\n\r\n"))).toThrow(RangeError);
    expect(() => parseClientHello(Buffer.from([22, 3, 1, 0, 4, 2, 0, 0, 0]))).toThrow(RangeError);
    expect(() => parseClientHello(Buffer.from([22, 3, 1, 0, 4, 1, 0, 0, 0]))).toThrow(RangeError);
    const endless = Buffer.concat([Buffer.from([22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff]), Buffer.alloc(16_380)]);
    expect(() => parseClientHello(endless)).toThrow(/less than 16384 bytes/);
    expect(() => parseClientHello(inRecords(bytes, 8))).toThrow(/at most 16 records/);
    for (let at = 9; at < bytes.length; at++) {
      const broken = Buffer.from(bytes);
      broken[at] = 0xff;
      try {
        const parsed = parseClientHello(broken);
        expect(typeof parsed === "number" || Array.isArray(parsed.protocols)).toBe(true);
      } catch (error) {
        expect(error).toBeInstanceOf(RangeError);
      }
    }
  });
});
