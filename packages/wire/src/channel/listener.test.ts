import { once } from "node:events";
import { connect as connectTcp } from "node:net";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { BaseHeader } from "../catalogue/base.ts";
import { UNKNOWN_VERSION_RESPONSE, writeFramePrefix } from "../frame/frame.ts";
import { Headers } from "../frame/headers.ts";
import { encodeMessage } from "../frame/message.ts";
import type { Identity } from "../identity/identity.ts";
import { lineBounds } from "../log.ts";
import { TlsPort } from "../socket/tls-port.ts";
import { TestAuthority } from "../testing/authority.ts";
import { RawChannelPeer } from "../testing/raw-channel-peer.ts";
import { RecordingLogger } from "../testing/recording-logger.ts";
import type { Channel } from "./channel.ts";
import { type AcceptOptions, acceptChannels } from "./listener.ts";

let listenerIdentity: Identity;
let clientIdentity: Identity;
let port: TlsPort;
let log: RecordingLogger;
let channels: Channel[];

beforeAll(async () => {
  const authority = await TestAuthority.create();
  listenerIdentity = await authority.identity("wRk0aZBn2");
  clientIdentity = await authority.identity("4sXgVkPQ1");
});

afterEach(() => port.close());

async function listen(options: Partial<AcceptOptions> = {}): Promise<() => void> {
  log = new RecordingLogger();
  channels = [];
  port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: listenerIdentity, log });
  return acceptChannels(port, {
    name: "edge",
    protocols: ["ziti-edge"],
    acceptsNoAlpn: true,
    id: "wRk0aZBn2",
    log,
    onChannel: (channel) => channels.push(channel),
    ...options,
  });
}

const dial = (localAddress?: string): Promise<RawChannelPeer> =>
  RawChannelPeer.connect(port.port, clientIdentity, localAddress === undefined ? {} : { localAddress });
const refusals = (): unknown[] =>
  log.entries.filter((e) => e.level !== "debug" && e.msg === "connection refused").map((e) => e.fields.code);

describe("a hello", () => {
  test("is answered with a result that names this listener and the hello's own sequence", async () => {
    await listen({ resultHeaders: () => new Headers().setBool(1024, true).setI32(BaseHeader.ReplyFor, 77) });
    for (const sequence of [-1, 1]) {
      const peer = await dial();
      peer.hello("me", new Headers().setString(1002, "token").setU64(128, 5n).setU32(256, 1), sequence);
      const result = await peer.message();
      expect([result.contentType, result.sequence, result.body.length]).toEqual([2, -1, 0]);
      expect(result.headers.getI32(1)).toBe(sequence);
      expect(result.headers.getBool(2)).toBe(true);
      expect(result.headers.getString(8)).toBe("wRk0aZBn2");
      expect(result.headers.getBool(1024)).toBe(true);
      expect(result.headers.getU64(128)).toBe(5n);
      expect([7, 9, 10, 256].map((key) => result.headers.has(key))).toEqual([false, false, false, false]);
      expect(result.headers.getString(0)).toMatch(/^[A-Za-z0-9]{4,}$/);
      peer.destroy();
    }
    expect(new Set(channels.map((channel) => channel.connectionId)).size).toBe(2);
    const [channel] = channels;
    expect(channel?.remoteId).toBe("me");
    expect(channel?.hello.headers.getString(1002)).toBe("token");
    expect(channel?.peer.fingerprint).toBe(clientIdentity.leafFingerprint);
    expect(channel?.peer.address).toMatch(/^127\.0\.0\.1:\d+$/);
  });

  test("may come byte by byte, with messages right behind it", async () => {
    const received: string[] = [];
    const done = Promise.withResolvers<void>();
    await listen({
      authorize: () => new Promise((resolve) => setImmediate(resolve)),
      onChannel: (channel) => {
        channel.handle(70, (message) => {
          received.push(message.body.toString());
          if (received.length === 2) done.resolve();
        });
      },
    });
    const peer = await dial();
    const hello = encodeMessage({ contentType: 0, body: Buffer.from("me") }, -1);
    for (const byte of hello.subarray(0, -1)) {
      peer.write(Buffer.of(byte));
    }
    const first = encodeMessage({ contentType: 70, body: Buffer.from("first") }, 1);
    const second = encodeMessage({ contentType: 70, body: Buffer.from("second") }, 2);
    peer.write(Buffer.concat([hello.subarray(-1), first, second.subarray(0, 9)]));
    await peer.message();
    peer.write(second.subarray(9));
    await done.promise;
    expect(received).toEqual(["first", "second"]);
  });

  test("with an empty id token and split-link headers is accepted", async () => {
    await listen();
    const peer = (await dial()).hello("", new Headers().setByte(1, 2).setString(2, "RtrA.1").setU32(5, 1));
    expect((await peer.message()).headers.getI32(1)).toBe(-1);
    expect(channels[0]?.hello.headers.getByte(1)).toBe(2);
  });

  test("of another version gets the unknown-version response, then the end", async () => {
    await listen();
    const peer = (await dial()).write(Buffer.from("0306090d", "hex"));
    expect(await peer.closed).toEqual(UNKNOWN_VERSION_RESPONSE);
    const web = (await dial()).write(Buffer.from("GET / HTTP/1.1\r\n\r\n"));
    expect(await web.closed).toEqual(UNKNOWN_VERSION_RESPONSE);
    expect(channels).toEqual([]);
    expect(refusals()).toEqual(["BAD_MAGIC", "BAD_MAGIC"]);
    expect(log.entries[0]?.fields.peer).toMatch(/^127\.0\.0\.1:\d+$/);
  });

  const prefix = (contentType: number, headers: number, body: number): Buffer => {
    const bytes = Buffer.alloc(20);
    writeFramePrefix(bytes, 0, contentType, -1, headers, body);
    return bytes;
  };
  test.each([
    ["of too many header bytes", prefix(0, 16_385, 0), "FRAME_TOO_LARGE"],
    ["of too large a body", prefix(0, 0, 4_193), "FRAME_TOO_LARGE"],
    ["that is another message", encodeMessage({ contentType: 1 }, 1), "NOT_A_HELLO"],
    ["with a malformed header block", Buffer.concat([prefix(0, 5, 0), Buffer.alloc(5)]), "BAD_HEADERS"],
  ])("%s ends the connection without an answer", async (_what, bytes, code) => {
    await listen();
    const peer = (await dial()).write(bytes);
    expect((await peer.closed).length).toBe(0);
    expect(refusals()).toEqual([code]);
  });

  test("that does not come in time ends the connection without an answer", async () => {
    await listen({ helloTimeoutMs: 50 });
    const peer = (await dial()).write(Buffer.from("0306", "hex"));
    expect((await peer.closed).length).toBe(0);
    expect(refusals()).toEqual(["HELLO_TIMEOUT"]);
  });

  test.each([
    ["fails", 5_000, () => Promise.reject(new Error("this router is unknown")), "this router is unknown"],
    ["takes too long", 500, () => new Promise<void>(() => {}), "no complete hello within 500 ms"],
  ])("whose authorization %s gets no answer", async (_what, helloTimeoutMs, authorize, reason) => {
    await listen({ helloTimeoutMs, authorize });
    expect((await (await dial()).hello("me").closed).length).toBe(0);
    expect(log.entries.map((entry) => entry.fields.reason)).toEqual([reason]);
    expect(channels).toEqual([]);
  });

  test("whose sender goes away while it is authorized leaves nothing behind", async () => {
    const authorizing = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const made = Promise.withResolvers<Channel>();
    await listen({
      authorize: () => {
        authorizing.resolve();
        return go.promise;
      },
      onChannel: made.resolve,
    });
    const peer = (await dial()).hello("me");
    await authorizing.promise;
    peer.destroy();
    await peer.closed;
    go.resolve();
    const channel = await made.promise;
    expect(await channel.closed).toBeInstanceOf(Error);
    expect(channel.underlays).toEqual([]);
  });
});

test("a client without certificate is refused", async () => {
  await listen();
  const peer = await RawChannelPeer.connect(port.port);
  peer.hello("me");
  expect((await peer.closed).length).toBe(0);
  expect(refusals()).toEqual(["NO_CLIENT_CERTIFICATE"]);
});

test("connections that send no hello give way, the oldest of the fullest share first, and keep no client out", async () => {
  await listen({ maxHellos: 4 });
  const other = await dial("127.0.0.2");
  const silent = [await dial(), await dial()];
  const next = (await dial()).hello("me");
  expect((await next.message()).headers.getBool(2)).toBe(true);
  expect((await silent[0]?.closed)?.length).toBe(0);
  expect(refusals()).toEqual(["TOO_MANY_HELLOS"]);
  for (const peer of [other, silent[1]]) {
    peer?.hello("me");
    expect((await peer?.message())?.headers.getBool(2)).toBe(true);
  }
});

test("a hello that has arrived does not give way while it is looked at", async () => {
  let arrived = 0;
  const judged = Promise.withResolvers<void>();
  await listen({
    maxHellos: 2,
    authorize: () => {
      arrived++;
      return judged.promise;
    },
  });
  const first = (await dial()).hello("first");
  await expect.poll(() => arrived).toBe(1);
  expect((await (await dial()).closed).length).toBe(0);
  const second = (await dial("127.0.0.2")).hello("second");
  await expect.poll(() => arrived).toBe(2);
  expect((await (await dial("127.0.0.3")).closed).length).toBe(0);
  judged.resolve();
  for (const peer of [first, second]) expect((await peer.message()).headers.getBool(2)).toBe(true);
  expect(refusals()).toEqual(["TOO_MANY_HELLOS", "TOO_MANY_HELLOS"]);
});

test("a group is not granted where the listener has none", async () => {
  await listen();
  const headers = new Headers().setBool(9, true).setBool(11, true).setString(7, "edge.default");
  const peer = (await dial()).hello("me", headers);
  const result = await peer.message();
  expect([7, 9, 10].map((key) => result.headers.has(key))).toEqual([false, false, false]);
  expect(channels[0]?.isGrouped).toBe(false);
});

test("a channel that its taker refuses ends after the result", async () => {
  await listen({
    onChannel: () => {
      throw new Error("not wanted");
    },
  });
  const peer = (await dial()).hello("me");
  expect((await peer.message()).headers.getBool(2)).toBe(true);
  await peer.closed;
  expect(log.entries.some((entry) => entry.level === "error")).toBe(true);
});

test("a stopped listener ends hellos in progress and leaves its channels alone", async () => {
  const stop = await listen();
  const settled = (await dial()).hello("settled");
  await settled.message();
  const waiting = await dial();
  waiting.write(Buffer.from("0306", "hex"));
  // By then the listener has read what came before.
  settled.send({ contentType: 1 }, 4);
  expect((await settled.message()).replyFor).toBe(4);
  stop();
  expect((await waiting.closed).length).toBe(0);
  settled.send({ contentType: 1 }, 5);
  expect((await settled.message()).replyFor).toBe(5);
  const late = await dial().catch(() => undefined);
  if (late !== undefined) expect((await late.closed).length).toBe(0);
});

test("connections that fail over and over leave a few lines in the log, whatever they failed at", async () => {
  await listen();
  for (let i = 0; i < 12; i++) {
    const other = connectTcp(port.port, "127.0.0.1").on("error", () => {});
    other.end("GET / HTTP/1.1\r\n\r\n").resume();
    await once(other, "close");
    await (await dial()).write(Buffer.from("0306090d", "hex")).closed;
  }
  const handshakes = log.entries.filter(({ level, msg }) => level !== "debug" && msg === "TLS handshake failed");
  expect([handshakes.length, refusals().length]).toEqual([lineBounds.perReason, lineBounds.perReason]);
});
