import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BaseHeader, BaseType } from "../catalogue/base.ts";
import { Headers } from "../frame/headers.ts";
import { encodeMessage } from "../frame/message.ts";
import { TestListener } from "../testing/channel-pair.ts";
import { headerOrders } from "../testing/header-orders.ts";
import { RawChannelPeer } from "../testing/raw-channel-peer.ts";
import { unixNanoseconds } from "./heartbeat.ts";

let listener: TestListener;
beforeEach(async () => {
  listener = await TestListener.start();
});
afterEach(() => listener.close());

async function rawPeer(): Promise<RawChannelPeer> {
  const peer = await RawChannelPeer.connect(listener.port.port, listener.identity);
  peer.hello("me");
  await peer.message();
  return peer;
}

const CLOCK = 1755720000123456789n;
const QUIET = { sendIntervalMs: 60_000, checkIntervalMs: 60_000 };

describe("heartbeats", () => {
  test("are not missed because this process stood still: the answer waits to be read", async () => {
    const channel = await listener.dial();
    const other = await listener.channel();
    other.enableHeartbeats(QUIET);
    const answers: bigint[] = [];
    channel.enableHeartbeats({
      sendIntervalMs: 10,
      checkIntervalMs: 5,
      closeUnresponsiveMs: 150,
      onLatency: (ns) => answers.push(ns),
    });
    for (let round = 0; round < 5; round++) {
      const until = answers.length + 2;
      while (answers.length < until && !channel.isClosed) await new Promise((resolve) => setImmediate(resolve));
      const stopped = performance.now();
      while (performance.now() - stopped < 300) Math.random();
    }
    expect(channel.isClosed).toBe(false);
    channel.close();
  });

  test("are sent at once when the peer is probed, one for all who ask; the answer need not wait for its turn", async () => {
    const channel = await listener.dial();
    const other = await listener.channel();
    const latencies: bigint[] = [];
    expect(await channel.probe(50)).toBe(false);
    channel.enableHeartbeats({ ...QUIET, onLatency: (ns) => latencies.push(ns) });
    // A peer without heartbeats reads them, and answers none.
    expect(await channel.probe(100)).toBe(false);
    other.enableHeartbeats(QUIET);
    expect(await Promise.all([channel.probe(10_000), channel.probe(10_000)])).toEqual([true, true]);
    expect(latencies).toHaveLength(1);
    expect(await channel.probe(10_000)).toBe(true);
    const unanswered = channel.probe(60_000);
    channel.close();
    expect(await unanswered).toBe(false);
    expect(await channel.probe(60_000)).toBe(false);
  });

  test("that probe are not missed because this process stood still", async () => {
    const channel = await listener.dial();
    (await listener.channel()).enableHeartbeats(QUIET);
    channel.enableHeartbeats(QUIET);
    const probe = channel.probe(100);
    const stopped = performance.now();
    while (performance.now() - stopped < 500) Math.random();
    expect(await probe).toBe(true);
    channel.close();
  });

  test("are answered wherever they stand among the headers of a message", async () => {
    const peer = await rawPeer();
    const other = await listener.channel();
    other.enableHeartbeats(QUIET);
    const headers = new Headers()
      .setU64(BaseHeader.Heartbeat, CLOCK)
      .setString(1_000, "session")
      .setBool(1_012, true)
      .set(1_003, Buffer.alloc(32));
    for (const ordered of headerOrders(headers)) {
      peer.send({ contentType: BaseType.Heartbeat, headers: ordered });
      const answer = await peer.message(({ headers }) => headers.has(BaseHeader.HeartbeatResponse));
      expect(answer.headers.getU64(BaseHeader.HeartbeatResponse)).toBe(CLOCK);
    }
    peer.destroy();
  });

  test("of both sides are answered and measured", async () => {
    const channel = await listener.dial();
    const other = await listener.channel();
    const options = { sendIntervalMs: 20, checkIntervalMs: 5, closeUnresponsiveMs: 60_000 };
    const [near, far] = await Promise.all(
      [channel, other].map(
        (side) => new Promise<bigint>((resolve) => side.enableHeartbeats({ ...options, onLatency: resolve })),
      ),
    );
    expect(near).toBeGreaterThan(0n);
    expect(far).toBeGreaterThan(0n);
    expect(channel.latencyMs).toBeGreaterThan(0);
    expect(channel.isClosed).toBe(false);
    channel.close();
  });

  test("are answered in the turn they came in, on any message, and only the header counts", async () => {
    const peer = await rawPeer();
    const channel = await listener.channel();
    channel.enableHeartbeats(QUIET);
    const payload = new Headers().setString(2256, "circuit").setU64(BaseHeader.Heartbeat, CLOCK);
    channel.onFrame = (frame) => frame.contentType === 1100;
    peer.write(
      Buffer.concat([
        encodeMessage({ contentType: 1100, headers: payload, body: Buffer.from("data") }, 1),
        encodeMessage({ contentType: BaseType.Ping }, 2),
      ]),
    );
    const answer = await peer.message();
    expect(answer.contentType).toBe(BaseType.Heartbeat);
    expect([...answer.headers.entries()]).toEqual([
      [BaseHeader.HeartbeatResponse, Buffer.from("154d68b409925d18", "hex")],
    ]);
    expect((await peer.message()).replyFor).toBe(2);
    peer.destroy();
  });

  test("are not answered by a channel that has none", async () => {
    const peer = await rawPeer();
    peer.send({ contentType: BaseType.Heartbeat, headers: new Headers().setU64(BaseHeader.Heartbeat, CLOCK) });
    peer.send({ contentType: BaseType.Ping }, 2);
    expect((await peer.message()).replyFor).toBe(2);
    peer.destroy();
  });

  test("go out without being asked, with the sender's clock", async () => {
    const peer = await rawPeer();
    const before = unixNanoseconds();
    (await listener.channel()).enableHeartbeats({ sendIntervalMs: 20, checkIntervalMs: 5 });
    const first = await peer.message();
    const second = await peer.message();
    expect([first.contentType, second.contentType]).toEqual([BaseType.Heartbeat, BaseType.Heartbeat]);
    const sent = first.headers.getU64(BaseHeader.Heartbeat) ?? 0n;
    expect(sent).toBeGreaterThanOrEqual(before);
    expect(second.headers.getU64(BaseHeader.Heartbeat)).toBeGreaterThan(sent);
    peer.destroy();
  });

  test("that stay unanswered end the channel", async () => {
    const peer = await rawPeer();
    const channel = await listener.channel();
    channel.enableHeartbeats({ sendIntervalMs: 10, checkIntervalMs: 5, closeUnresponsiveMs: 20 });
    expect(await channel.closed).toMatchObject({ code: "HEARTBEAT_UNANSWERED" });
    await peer.closed;
  });

  test("from the future count as no answer", async () => {
    const peer = await rawPeer();
    const channel = await listener.channel();
    let measured = 0;
    channel.enableHeartbeats({ ...QUIET, onLatency: () => measured++ });
    const answer = (value: bigint): Headers => new Headers().setU64(BaseHeader.HeartbeatResponse, value);
    peer.send({ contentType: BaseType.Heartbeat, headers: answer(unixNanoseconds() + 3_600_000_000_000n) }, 1);
    peer.send({ contentType: BaseType.Heartbeat, headers: new Headers().setU32(BaseHeader.HeartbeatResponse, 1) }, 2);
    peer.send({ contentType: BaseType.Heartbeat, headers: answer(unixNanoseconds()) }, 3);
    peer.send({ contentType: BaseType.Ping }, 4);
    await peer.message();
    expect(measured).toBe(1);
    peer.destroy();
  });
});
