import fc from "fast-check";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { BaseHeader, BaseType } from "../catalogue/base.ts";
import { ChannelClosedError, ProtocolError, RequestTimeoutError } from "../errors.ts";
import { writeFramePrefix } from "../frame/frame.ts";
import { Headers } from "../frame/headers.ts";
import { encodeMessage } from "../frame/message.ts";
import type { Identity } from "../identity/identity.ts";
import { TlsPort } from "../socket/tls-port.ts";
import { TestAuthority } from "../testing/authority.ts";
import { RawChannelPeer } from "../testing/raw-channel-peer.ts";
import { RecordingLogger } from "../testing/recording-logger.ts";
import type { Channel } from "./channel.ts";
import { dialChannel } from "./dialer.ts";
import { acceptChannels } from "./listener.ts";

const ECHO = 7000;

let identity: Identity;
let port: TlsPort;
const log = new RecordingLogger();
let accepted: PromiseWithResolvers<Channel>;
let bind: (channel: Channel) => void;

beforeAll(async () => {
  const authority = await TestAuthority.create();
  identity = await authority.identity("rtr");
  port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity });
  acceptChannels(port, {
    name: "edge",
    protocols: ["ziti-edge"],
    acceptsNoAlpn: true,
    id: "rtr",
    maxBody: 8_000_000,
    log,
    onChannel: (channel) => {
      bind(channel);
      accepted.resolve(channel);
    },
  });
});
beforeEach(() => {
  log.entries.length = 0;
  accepted = Promise.withResolvers();
  bind = (channel) =>
    channel.handle(ECHO, (message) => channel.reply(message, { contentType: ECHO, body: message.body }));
});
afterAll(() => port.close());

const dial = (): Promise<Channel> =>
  dialChannel({
    address: `tls:127.0.0.1:${port.port}`,
    identity,
    alpn: "ziti-edge",
    hello: { idToken: "me" },
    maxBody: 8_000_000,
    log,
  });

async function rawPeer(): Promise<RawChannelPeer> {
  const peer = await RawChannelPeer.connect(port.port, identity);
  peer.hello("me");
  await peer.message();
  return peer;
}

describe("a request", () => {
  test("gets its reply, also many at once and large ones", async () => {
    const channel = await dial();
    const bodies = [1, 20_000, 300_000, 5_000_000, 0, 65_536].map((n) => Buffer.alloc(n, n % 251));
    const replies = await Promise.all(bodies.map((body) => channel.request({ contentType: ECHO, body })));
    for (const [i, reply] of replies.entries()) {
      expect(reply.body.equals(bodies[i] ?? Buffer.alloc(0))).toBe(true);
    }
    channel.close();
  });

  test("fails after its time, and a reply that comes later is dropped", async () => {
    const late = Promise.withResolvers<() => void>();
    bind = (channel) => channel.handle(ECHO, (message) => late.resolve(() => channel.replyResult(message, true)));
    const channel = await dial();
    await expect(channel.request({ contentType: ECHO }, { timeoutMs: 20 })).rejects.toThrow(RequestTimeoutError);
    (await late.promise)();
    expect((await channel.request({ contentType: BaseType.Ping })).headers.getBool(2)).toBe(true);
    expect(log.entries.some((entry) => entry.msg.includes("no request waits for"))).toBe(true);
    channel.close();
  });

  test("that no peer would take is refused here, and the channel stays", async () => {
    const channel = await dial();
    const tooLarge = { contentType: ECHO, headers: new Headers().set(1000, Buffer.alloc(65_536)) };
    await expect(channel.request(tooLarge)).rejects.toMatchObject({ code: "MESSAGE_TOO_LARGE" });
    expect(() => channel.send(tooLarge)).toThrow("at most 65536");
    expect((await channel.request({ contentType: ECHO, body: Buffer.from("x") })).body.toString()).toBe("x");
    channel.close();
  });

  test("ends with its signal", async () => {
    bind = () => {};
    const channel = await dial();
    const abort = new AbortController();
    const reason = new Error("no longer needed");
    const waiting = channel.request({ contentType: ECHO }, { signal: abort.signal });
    abort.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(channel.request({ contentType: ECHO }, { signal: abort.signal })).rejects.toBe(reason);
    channel.close();
  });

  test("ends with the channel, at whichever end it closes", async () => {
    bind = () => {};
    const channel = await dial();
    const waiting = channel.request({ contentType: ECHO });
    (await accepted.promise).close();
    await expect(waiting).rejects.toThrow(ChannelClosedError);
    expect(await channel.closed).toMatchObject({ code: "CLOSED_BY_PEER" });
    await expect(channel.request({ contentType: ECHO })).rejects.toThrow(ChannelClosedError);
    expect(() => channel.send({ contentType: ECHO })).toThrow(ChannelClosedError);
  });

  test("is numbered from 1, and its reply takes a number of its own", async () => {
    const numbers: number[] = [];
    bind = (channel) =>
      channel.handle(ECHO, (message) => {
        numbers.push(message.sequence);
        channel.reply(message, { contentType: ECHO });
      });
    const channel = await dial();
    const replies = [await channel.request({ contentType: ECHO }), await channel.request({ contentType: ECHO })];
    expect(numbers).toEqual([1, 2]);
    expect(replies.map((reply) => [reply.sequence, reply.replyFor])).toEqual([
      [1, 1],
      [2, 2],
    ]);
    channel.close();
  });
});

describe("a channel answers by itself", () => {
  test("pings, and latency probes byte for byte", async () => {
    const peer = await rawPeer();
    peer.send({ contentType: BaseType.Ping }, 1);
    expect((await peer.message()).headers.getBool(2)).toBe(true);
    const probe = new Headers().set(128, Buffer.from("154d68b409925d18", "hex")).setU32(300, 1);
    peer.send({ contentType: BaseType.Latency, headers: probe }, 5);
    const reply = await peer.message();
    expect([reply.contentType, reply.replyFor, reply.headers.has(300)]).toEqual([BaseType.Result, 5, false]);
    expect(reply.headers.get(128)?.toString("hex")).toBe("154d68b409925d18");
    peer.destroy();
  });

  test("pings in another way when told so", async () => {
    bind = (channel) => channel.handle(BaseType.Ping, (message) => channel.replyResult(message, true, "ok"));
    const channel = await dial();
    expect((await channel.request({ contentType: BaseType.Ping })).body.toString()).toBe("ok");
    channel.close();
  });

  test("nothing to a reconnect ping, a latency response, a heartbeat or what it does not know", async () => {
    const peer = await rawPeer();
    for (let i = 0; i < 3; i++) {
      peer.write(Buffer.from("0306090cdfffffffffffffff0000000000000000", "hex"));
      peer.send({ contentType: BaseType.LatencyResponse, headers: new Headers().setU64(128, 1n) }, 2);
      peer.send({ contentType: BaseType.Heartbeat, headers: new Headers().setU64(5, 1n) }, 3);
      peer.send({ contentType: 4711 }, 4);
      peer.send({ contentType: BaseType.Hello }, 5);
      peer.send({ contentType: BaseType.Result, headers: new Headers().setI32(1, 99) }, 6);
    }
    peer.send({ contentType: BaseType.Ping }, 9);
    expect((await peer.message()).replyFor).toBe(9);
    const unknown = log.entries.filter((entry) => entry.msg.includes("unknown content type"));
    expect(unknown.map((entry) => entry.fields.contentType)).toEqual([4711, 0]);
    peer.destroy();
  });

  test("not every one of a flood of unknown types in the log", async () => {
    const peer = await rawPeer();
    peer.write(Buffer.concat(Array.from({ length: 500 }, (_, i) => encodeMessage({ contentType: 90_000 + i }, i))));
    peer.send({ contentType: BaseType.Ping }, 1000);
    await peer.message();
    expect(log.entries.length).toBeLessThan(50);
    peer.destroy();
  });
});

describe("a message", () => {
  test("with a reply number of a wrong length goes to its handler", async () => {
    const got = Promise.withResolvers<number | undefined>();
    bind = (channel) => channel.handle(ECHO, (message) => got.resolve(message.replyFor));
    const peer = await rawPeer();
    peer.send({ contentType: ECHO, headers: new Headers().set(BaseHeader.ReplyFor, Buffer.of(1)) });
    expect(await got.promise).toBeUndefined();
    peer.destroy();
  });

  test("that answers no waiting request goes to its handler", async () => {
    const got = Promise.withResolvers<number | undefined>();
    bind = (channel) => channel.handle(ECHO, (message) => got.resolve(message.replyFor));
    const peer = await rawPeer();
    peer.send({ contentType: ECHO, headers: new Headers().setI32(BaseHeader.ReplyFor, 12) });
    expect(await got.promise).toBe(12);
    peer.destroy();
  });

  test("of no known type goes to the handler for the others", async () => {
    const got = Promise.withResolvers<number>();
    bind = (channel) => channel.handleOther((message) => got.resolve(message.contentType));
    const peer = await rawPeer();
    peer.send({ contentType: -7 });
    expect(await got.promise).toBe(-7);
    peer.destroy();
  });

  test("may be kept", async () => {
    const bodies: Buffer[] = [];
    const done = Promise.withResolvers<void>();
    bind = (channel) =>
      channel.handle(ECHO, (message) => {
        bodies.push(message.body);
        if (bodies.length === 300) done.resolve();
      });
    const channel = await dial();
    for (let i = 0; i < 300; i++) {
      channel.send({ contentType: ECHO, body: Buffer.alloc(1000, i) });
    }
    await done.promise;
    expect(bodies.every((body, i) => body.every((byte) => byte === i % 256))).toBe(true);
    channel.close();
  });

  test("whose handler throws or rejects ends nothing", async () => {
    bind = (channel) => {
      channel.handle(1, () => {
        throw new Error("at once");
      });
      channel.handle(ECHO, () => Promise.reject(new Error("later")));
      channel.handle(ECHO + 1, (message) => channel.replyResult(message, true));
      channel.onFrame = (frame) => {
        if (frame.contentType === 13) throw new Error("in place");
        return false;
      };
    };
    const channel = await dial();
    for (const contentType of [1, ECHO, 13]) {
      channel.send({ contentType });
    }
    await channel.request({ contentType: ECHO + 1 });
    const failures = log.entries.filter((entry) => entry.level === "error").map((entry) => String(entry.fields.err));
    expect(failures.toSorted()).toEqual(["Error: at once", "Error: in place", "Error: later"]);
    channel.close();
  });
});

describe("malformed bytes close the channel they came on", () => {
  test.each([
    ["another magic", Buffer.from("0306090a0200000001000000020000000000000000", "hex"), "BAD_MAGIC"],
    [
      "half a header",
      Buffer.from("0306090c070000000100000003000000000000000102 03".replace(" ", ""), "hex"),
      "BAD_HEADERS",
    ],
    ["a body over the limit", Buffer.from("0306090c07000000010000000000000001127a00", "hex"), "FRAME_TOO_LARGE"],
    ["headers over the limit", Buffer.from("0306090c07000000010000000100010000000000", "hex"), "FRAME_TOO_LARGE"],
  ])("%s", async (_what, bytes, code) => {
    const other = await dial();
    accepted = Promise.withResolvers();
    const peer = await rawPeer();
    const channel = await accepted.promise;
    peer.write(bytes);
    await peer.closed;
    const reason = await channel.closed;
    expect(reason).toBeInstanceOf(ProtocolError);
    expect(reason).toMatchObject({ code });
    expect(log.entries.filter((entry) => entry.level === "warn").map((entry) => entry.fields.code)).toEqual([code]);
    expect((await other.request({ contentType: BaseType.Ping })).replyFor).toBe(1);
    other.close();
  });
});

test("random bytes behind the hello end at most the channel they came on", async () => {
  const steady = await dial();
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.oneof(
          fc.uint8Array({ minLength: 1, maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
          fc.constantFrom(encodeMessage({ contentType: 70 }, 1), Buffer.from("0306090c", "hex")),
          fc.tuple(fc.nat(30), fc.nat(30), fc.uint8Array({ maxLength: 60 })).map(([headers, body, rest]) => {
            const frame = Buffer.alloc(20 + rest.length);
            frame.set(rest, writeFramePrefix(frame, 0, 70, 1, headers, body));
            return frame;
          }),
        ),
        { minLength: 1, maxLength: 8 },
      ),
      async (pieces) => {
        accepted = Promise.withResolvers();
        const peer = await rawPeer();
        const channel = await accepted.promise;
        for (const piece of pieces) peer.write(piece);
        peer.socket.end();
        const reason = await channel.closed;
        expect(reason instanceof ProtocolError || reason instanceof ChannelClosedError).toBe(true);
      },
    ),
    { numRuns: 60 },
  );
  expect((await steady.request({ contentType: BaseType.Ping })).replyFor).toBe(1);
  steady.close();
});

describe("frames in place", () => {
  test("are seen before anything else, and may be consumed", async () => {
    const seen: [number, string][] = [];
    bind = (channel) => {
      channel.onFrame = (frame, underlay) => {
        expect(underlay.channel).toBe(channel);
        seen.push([frame.contentType, frame.buffer.toString("latin1", frame.bodyStart, frame.end)]);
        return frame.contentType === 1100;
      };
      channel.handle(1100, () => expect.unreachable());
    };
    const channel = await dial();
    channel.send({ contentType: 1100, headers: new Headers().setString(2256, "x"), body: Buffer.from("payload") });
    await channel.request({ contentType: BaseType.Ping });
    expect(seen).toEqual([
      [1100, "payload"],
      [BaseType.Ping, ""],
    ]);
    channel.close();
  });

  test("say whether they carry a heartbeat", async () => {
    const seen: boolean[] = [];
    bind = (channel) => {
      channel.onFrame = (frame) => {
        seen.push(frame.carriesHeartbeat);
        return frame.contentType === 1100;
      };
    };
    const channel = await dial();
    channel.send({ contentType: 1100, headers: new Headers().setString(2256, "x").setU64(5, 1n) });
    channel.send({ contentType: 1100, headers: new Headers().setString(2256, "x") });
    await channel.request({ contentType: BaseType.Ping });
    expect(seen).toEqual([true, false, false]);
    channel.close();
  });
});

describe("closing", () => {
  test.each([
    ["", 20, 0],
    [", also when this process stands still right afterwards", 600, 1_200],
  ])("sends what was queued first%s", async (_when, messages, standMs) => {
    const got = Promise.withResolvers<number>();
    let bytes = 0;
    bind = (channel) => {
      channel.handle(ECHO, (message) => {
        bytes += message.body.length;
      });
      channel.onClose(() => got.resolve(bytes));
    };
    const channel = await dial();
    for (let i = 0; i < messages; i++) channel.send({ contentType: ECHO, body: Buffer.alloc(10_000) });
    channel.close();
    channel.close(new Error("too late to matter"));
    const until = performance.now() + standMs;
    while (performance.now() < until);
    expect(await channel.closed).toBeUndefined();
    expect(await got.promise).toBe(messages * 10_000);
    expect(channel.underlays).toEqual([]);
  });

  test("calls each callback once, also one added later, and one that throws does not stop the others", async () => {
    const channel = await dial();
    const reasons: unknown[] = [];
    channel.onClose(() => {
      throw new Error("mine");
    });
    channel.onClose((reason) => reasons.push(reason));
    const why = new Error("session ended");
    channel.close(why);
    channel.onClose((reason) => reasons.push(reason));
    expect(reasons).toEqual([why, why]);
    expect(channel.isClosed).toBe(true);
    expect((await accepted.promise.then((peer) => peer.closed)) instanceof ChannelClosedError).toBe(true);
  });
});
