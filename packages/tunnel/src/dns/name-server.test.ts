import { createSocket, Socket } from "node:dgram";
import { once } from "node:events";
import { silentLogger } from "@sallyport/wire";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { NameServer } from "./name-server.ts";
import { AddressPool, Names } from "./names.ts";
import { Upstream } from "./upstream.ts";

const A = 1;
const AAAA = 28;
const SERVFAIL = 2;
const REFUSED = 5;

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(/\s/g, ""), "hex");

/** A query with recursion desired. */
function query(
  name: string,
  type: number,
  o: { id?: number; flags?: number; more?: Buffer } = {},
): Buffer<ArrayBuffer> {
  const labels = name.split(".").map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]));
  const header = Buffer.alloc(12);
  header.writeUInt16BE(o.id ?? 0x1234, 0);
  header.writeUInt16BE(o.flags ?? 0x0100, 2);
  header.writeUInt16BE(1, 4);
  if (o.more !== undefined) header.writeUInt16BE(1, 10);
  return Buffer.concat([header, ...labels, Buffer.from([0, 0, type, 0, 1]), o.more ?? Buffer.alloc(0)]);
}

describe("the name server", () => {
  let names: Names;
  let server: NameServer;
  let client: Socket;
  let log: RecordingLogger;

  const start = async (range = "100.64.0.1/10", upstream?: Upstream): Promise<void> => {
    names = new Names(new AddressPool(range));
    log = new RecordingLogger();
    server = await NameServer.listen({ host: "127.0.0.1", port: 0, names, upstream, log });
  };
  const ask = async (bytes: Buffer): Promise<Buffer> => {
    const answer = once(client, "message");
    client.send(bytes, server.port, "127.0.0.1");
    return (await answer)[0] as Buffer;
  };
  const code = (answer: Buffer): number => answer[3]! & 15;
  const address = async (name: string): Promise<string | number> => {
    const answer = await ask(query(name, A));
    return code(answer) === 0 ? [...answer.subarray(-4)].join(".") : code(answer);
  };

  beforeEach(async () => {
    client = createSocket("udp4").bind(0, "127.0.0.1");
    await once(client, "listening");
  });
  afterEach(async () => {
    client.close();
    await server.close();
  });

  test("answers no client at port 0, where nothing can be sent: only forged packets come from there", async () => {
    const bound = vi.spyOn(Socket.prototype, "bind");
    await start();
    const socket = bound.mock.contexts[0] as Socket;
    bound.mockRestore();
    const sent = vi.spyOn(socket, "send");
    socket.emit("message", query("a.b", A), { address: "127.0.0.1", family: "IPv4", port: 0, size: 21 });
    expect(code(await ask(query("a.b", A)))).toBe(REFUSED);
    expect(sent).toHaveBeenCalledTimes(1);
  });

  test("answers a known name byte by byte, in the case that was asked for", async () => {
    await start();
    names.add("web.ziti", "s1");
    const asked = hex("12 34 01 00 00 01 00 00 00 00 00 00 03 77 65 62 04 7a 69 74 69 00 00 01 00 01");
    const header = "12 34 85 00 00 01 00 01 00 00 00 00";
    expect(await ask(asked)).toEqual(
      hex(`${header} 03 77 65 62 04 7a 69 74 69 00 00 01 00 01
           03 77 65 62 04 7a 69 74 69 00 00 01 00 01 00 00 00 3c 00 04 64 40 00 02`),
    );
    const upper = "03 57 45 42 04 7a 69 74 69 00 00 01 00 01";
    expect(await ask(hex(`${"12 34 01 00 00 01 00 00 00 00 00 00"} ${upper}`))).toEqual(
      hex(`${header} ${upper} ${upper} 00 00 00 3c 00 04 64 40 00 02`),
    );
  });

  test("refuses an unknown name, so that the client tries its next name server", async () => {
    await start();
    const answer = await ask(query("x.example", A));
    expect(answer).toEqual(hex("12 34 81 05 00 01 00 00 00 00 00 00 01 78 07 65 78 61 6d 70 6c 65 00 00 01 00 01"));
  });

  test("refuses an unknown name's IPv6 address, too: an empty answer would end the search for the other one", async () => {
    await start();
    const answer = await ask(query("x.example", AAAA));
    expect(answer).toEqual(hex("12 34 81 05 00 01 00 00 00 00 00 00 01 78 07 65 78 61 6d 70 6c 65 00 00 1c 00 01"));
  });

  test("knows no IPv6 address of its names, and says so", async () => {
    await start();
    names.add("x.known", "s1");
    const known = await ask(query("x.known", AAAA));
    expect([code(known), known.readUInt16BE(2) & 0x0400, known.readUInt16BE(6)]).toEqual([0, 0x0400, 0]);
  });

  test("refuses every other type, also of known names", async () => {
    await start();
    names.add("web.ziti", "s1");
    for (const type of [2, 5, 6, 12, 15, 16, 33, 65, 255])
      expect(code(await ask(query("web.ziti", type)))).toBe(REFUSED);
  });

  test("gives a name under a wildcard an address when it is asked for, and answers when that is ready", async () => {
    await start();
    const found: [string, string][] = [];
    let release = (): void => {};
    const ready = new Promise<void>((resolve) => {
      release = resolve;
    });
    names.addWildcard("*.example.org", "s1", async (name, given) => {
      found.push([name, given]);
      await ready;
    });
    let isAnswered = false;
    const first = address("a.b.Example.org").then((given) => {
      isAnswered = true;
      return given;
    });
    // Another question is answered meanwhile, so the first one has been taken.
    const refused = query("elsewhere", A, { id: 7 });
    const other = createSocket("udp4");
    other.send(refused, server.port, "127.0.0.1");
    await once(other, "message");
    other.close();
    expect([isAnswered, found]).toEqual([false, [["a.b.example.org", "100.64.0.2"]]]);
    release();
    expect(await first).toBe("100.64.0.2");
    expect(await address("example.org")).toBe(REFUSED);
    expect(await address("a.b.example.org")).toBe("100.64.0.2");
    expect(names.nameOf("100.64.0.2")).toBe("a.b.example.org");
  });

  test("fails, and says so once, when the range is used up", async () => {
    await start("192.0.2.1/30");
    names.addWildcard("*.w", "s1", async () => {});
    const answers = [];
    for (const name of ["a.w", "b.w", "c.w", "d.w", "a.w", "e.w"]) answers.push(await address(name));
    expect(answers).toEqual(["192.0.2.2", "192.0.2.3", SERVFAIL, SERVFAIL, "192.0.2.2", SERVFAIL]);
    expect(log.entries.filter(({ level }) => level === "warn").map(({ fields, msg }) => [fields, msg])).toEqual([
      [{ name: "c.w" }, expect.stringMatching(/^no address is left for names under wildcards.*dnsSvcIpRange/)],
    ]);
    expect(() => names.add("d", "s1")).toThrow(/no address is left.*dnsSvcIpRange/);
  });

  test("answers for the name by which one sees whether the system asks us", async () => {
    await start();
    expect(await address("ziti-tunnel.resolver.test")).toBe("19.65.28.94");
    expect(code(await ask(query("ziti-tunnel.resolver.test", AAAA)))).toBe(0);
  });

  test("a range of IPv6 addresses gives AAAA records", async () => {
    await start("fd00:64::1/64");
    names.add("web", "s1");
    const answer = await ask(query("web", AAAA));
    expect(answer.subarray(-26)).toEqual(hex("001c 0001 0000003c 0010 fd00 0064 0000 0000 0000 0000 0000 0002"));
    expect((await ask(query("web", A))).readUInt16BE(6)).toBe(0);
    expect(code(await ask(query("other", AAAA)))).toBe(REFUSED);
  });

  test("malformed questions, other opcodes and answers have the outcome of the table", async () => {
    await start();
    const withCount = (count: number): Buffer => {
      const bytes = query("a.b", A);
      bytes.writeUInt16BE(count, 4);
      return bytes;
    };
    // Header, and the four section counts of the answer: all empty.
    const error = (flags: string): Buffer => hex(`1234 ${flags} 0000 0000 0000 0000`);
    expect(await ask(withCount(0))).toEqual(error("8101"));
    expect(await ask(withCount(2))).toEqual(error("8101"));
    expect(await ask(query("a.b", A).subarray(0, 15))).toEqual(error("8101"));
    expect(await ask(hex("1234 0100 0001 0000 0000 0000 c00c 0001 0001"))).toEqual(error("8101"));
    expect(await ask(query(Array.from({ length: 80 }, () => "abc").join("."), A))).toEqual(error("8101"));
    expect(await ask(query("a.b", A, { flags: 0x1000 }))).toEqual(error("9004"));
    expect(code(await ask(query("a.b", A, { flags: 0x2000 })))).toBe(REFUSED);
    // Neither an answer nor half a header is answered: the next answer is that of the next question.
    client.send(query("a.b", A, { id: 1, flags: 0x8100 }), server.port, "127.0.0.1");
    client.send(Buffer.alloc(11), server.port, "127.0.0.1");
    expect((await ask(query("a.b", A, { id: 2 }))).readUInt16BE(0)).toBe(2);
  });

  test("no garbage stops it", async () => {
    await start();
    names.add("web.ziti", "s1");
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(
          fc.uint8Array({ maxLength: 600 }),
          // A question with some bytes changed.
          fc.array(fc.tuple(fc.nat(40), fc.nat(255)), { maxLength: 4 }).map((changes) => {
            const bytes = query("web.ziti", A);
            for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value;
            return bytes;
          }),
        ),
        async (bytes) => {
          const got: Buffer[] = [];
          const listen = (answer: Buffer): void => void got.push(answer);
          client.on("message", listen);
          client.send(bytes, server.port, "127.0.0.1");
          const last = query("web.ziti", A, { id: 0xbeef });
          const done = new Promise<void>((resolve) => {
            const wait = (answer: Buffer): void => {
              if (answer.readUInt16BE(0) !== 0xbeef) return;
              client.off("message", wait);
              resolve();
            };
            client.on("message", wait);
          });
          client.send(last, server.port, "127.0.0.1");
          await done;
          client.off("message", listen);
          // At most one answer to it; never longer than a question and one record.
          expect(got.length).toBeLessThanOrEqual(2);
          for (const answer of got) expect(answer.length).toBeLessThanOrEqual(2 * bytes.length + 56);
        },
      ),
      { numRuns: 150 },
    );
  });

  test("says what to do when its address cannot be had", async () => {
    await start();
    const listen = (host: string, port: number) => NameServer.listen({ host, port, names, log: silentLogger });
    await expect(listen("127.0.0.1", server.port)).rejects.toThrow(/another program listens there/);
    await expect(listen("192.0.2.77", 53)).rejects.toThrow(/has no such address/);
    await expect(listen("0.0.0.0", 53)).rejects.toThrow(/give it one address/);
  });

  describe("with an upstream", () => {
    let upstream: Socket;
    let seen: Buffer[];
    let respond: (asked: Buffer) => Buffer | undefined;

    beforeEach(async () => {
      seen = [];
      respond = (asked) => asked;
      upstream = createSocket("udp4").bind(0, "127.0.0.1");
      await once(upstream, "listening");
      upstream.on("message", (asked, from) => {
        seen.push(asked);
        const answer = respond(asked);
        if (answer !== undefined) upstream.send(answer, from.port, from.address);
      });
    });
    afterEach(() => void upstream.close());

    const answerOf = (asked: Buffer, more: Buffer = Buffer.alloc(0)): Buffer => {
      const answer = Buffer.concat([asked, more]);
      answer.writeUInt16BE(0x8180, 2);
      return answer;
    };
    const startWith = async (o: { maxOutstanding?: number; maxPerClient?: number; timeoutMs?: number } = {}) =>
      await start(
        "100.64.0.1/10",
        new Upstream({ host: "127.0.0.1", port: upstream.address().port, log: silentLogger, ...o }),
      );

    test("asks it for what is not ours, under another id, and passes its answer on", async () => {
      await startWith();
      names.add("web.ziti", "s1");
      respond = (asked) => answerOf(asked, hex("c00c 0010 0001 0000 0001 0002 01 61"));
      for (const id of [1, 2, 3, 4]) {
        const answer = await ask(query("example.org", 16, { id }));
        expect(answer.readUInt16BE(0)).toBe(id);
        expect(answer.subarray(-2)).toEqual(hex("0161"));
      }
      expect(new Set(seen.map((asked) => asked.readUInt16BE(0))).size).toBeGreaterThan(1);
      expect(code(await ask(query("example.org", AAAA)))).toBe(0);
      expect(seen).toHaveLength(5);
    });

    test("never asks it for our names", async () => {
      await startWith();
      names.add("web.ziti", "s1");
      names.addWildcard("*.w", "s1", async () => {});
      expect(await address("web.ziti")).toBe("100.64.0.2");
      expect(code(await ask(query("web.ziti", AAAA)))).toBe(0);
      expect(code(await ask(query("x.w", 16)))).toBe(REFUSED);
      expect(seen).toHaveLength(0);
    });

    test("takes no answer under another id or to another question, nor from another address", async () => {
      await startWith({ timeoutMs: 300 });
      respond = (asked) => {
        const forged = answerOf(asked);
        forged.writeUInt16BE(asked.readUInt16BE(0) ^ 1, 0);
        return forged;
      };
      expect(code(await ask(query("example.org", A)))).toBe(2);
      respond = (asked) => {
        const forged = answerOf(asked);
        forged[13] = 0x7a;
        return forged;
      };
      expect(code(await ask(query("example.org", A)))).toBe(2);
    });

    test("answers with a failure when it is silent or there are too many questions", async () => {
      await startWith({ timeoutMs: 300, maxPerClient: 2 });
      respond = () => undefined;
      const answers: number[] = [];
      const all = new Promise<void>((resolve) => {
        client.on("message", (answer) => {
          answers.push(answer.readUInt16BE(0));
          expect(code(answer)).toBe(2);
          if (answers.length === 3) resolve();
        });
      });
      for (const id of [1, 2, 3]) client.send(query("example.org", A, { id }), server.port, "127.0.0.1");
      await all;
      // The third one at once.
      expect(answers[0]).toBe(3);
      expect(seen).toHaveLength(2);
    });

    test("an answer larger than the client takes is cut down to the question, and says so", async () => {
      await startWith();
      respond = (asked) => answerOf(asked.subarray(0, 29), Buffer.alloc(900, 1));
      const cut = await ask(query("example.org", A));
      expect([cut.length, cut.readUInt16BE(2) & 0x0200]).toEqual([29, 0x0200]);
      // With the size of its datagrams in an OPT record the client gets it whole.
      const opt = hex("00 0029 1000 00000000 0000");
      respond = (asked) => {
        const answer = Buffer.concat([asked, Buffer.alloc(900, 1)]);
        answer.writeUInt16BE(0x8180, 2);
        return answer;
      };
      const whole = await ask(query("example.org", A, { more: opt }));
      expect(whole.length).toBeGreaterThan(900);
    });
  });
});
