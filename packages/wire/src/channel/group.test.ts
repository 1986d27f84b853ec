import { setTimeout } from "node:timers/promises";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { BaseHeader } from "../catalogue/base.ts";
import { Headers } from "../frame/headers.ts";
import type { Identity } from "../identity/identity.ts";
import { TestAuthority } from "../testing/authority.ts";
import { TestListener } from "../testing/channel-pair.ts";
import { DisturbedWay } from "../testing/disturbed-way.ts";
import { RawChannelPeer } from "../testing/raw-channel-peer.ts";
import type { Channel } from "./channel.ts";
import { dialUnderlay } from "./dialer.ts";

const DEFAULT = "edge.default";
const CONTROL = "edge.control";

let mine: Identity;
let other: Identity;
let listener: TestListener;
let authorized: string[];

beforeAll(async () => {
  const authority = await TestAuthority.create();
  mine = await authority.identity("mine");
  other = await authority.identity("other");
});
beforeEach(async () => {
  authorized = [];
  listener = await TestListener.start(
    {
      grouped: true,
      authorize: async (hello) => {
        authorized.push(hello.idToken);
      },
    },
    mine,
  );
});
afterEach(() => listener.close());

const first = (): Headers => new Headers().setBool(9, true).setBool(11, true).setString(7, DEFAULT);
const dialGroup = (): Promise<Channel> => listener.dial({ hello: { idToken: "me", headers: first() } });

async function untilUnderlays(channel: Channel, count: number): Promise<void> {
  while (channel.underlays.length !== count) await new Promise((resolve) => setImmediate(resolve));
}

describe("a group", () => {
  test("is made by its first connection, joined by others, and authorized once", async () => {
    const channel = await dialGroup();
    const far = await listener.channel();
    expect(channel.result.getString(BaseHeader.Type)).toBe(DEFAULT);
    expect(channel.result.get(BaseHeader.GroupSecret)?.length).toBe(16);
    expect([channel.isGrouped, far.isGrouped]).toEqual([true, true]);
    await dialUnderlay(channel, { type: CONTROL });
    await dialUnderlay(channel, { type: DEFAULT });
    await untilUnderlays(far, 3);
    expect(far.underlays.map((underlay) => underlay.type)).toEqual([DEFAULT, CONTROL, DEFAULT]);
    expect(channel.underlays.map((underlay) => underlay.type)).toEqual([DEFAULT, CONTROL, DEFAULT]);
    expect(listener.accepted.length).toBe(1);
    expect(authorized).toEqual(["me"]);
    expect(channel.connectionId).toBe(far.connectionId);
    channel.close();
    await far.closed;
  });

  test("gets no connection, and its secret goes nowhere, when another answers at the address", async () => {
    const channel = await dialGroup();
    await listener.channel();
    listener.port.setIdentity(other);
    await expect(dialUnderlay(channel, { type: CONTROL })).rejects.toMatchObject({ code: "WRONG_PEER" });
    expect(channel.underlays.length).toBe(1);
    listener.port.setIdentity(mine);
    await dialUnderlay(channel, { type: CONTROL });
    expect(channel.underlays.length).toBe(2);
  });

  test("has one counter, and replies may come on another connection", async () => {
    const channel = await dialGroup();
    const far = await listener.channel();
    await dialUnderlay(channel, { type: CONTROL });
    await untilUnderlays(far, 2);
    const control = far.underlays[1];
    const sequences: number[] = [];
    far.handle(70, (message) => {
      sequences.push(message.sequence);
      const headers = new Headers().setI32(BaseHeader.ReplyFor, message.sequence);
      far.send({ contentType: 71, headers }, control);
    });
    expect((await channel.request({ contentType: 70 })).contentType).toBe(71);
    channel.send({ contentType: 70 }, channel.underlayFor(0, CONTROL));
    expect((await channel.request({ contentType: 70 })).contentType).toBe(71);
    while (sequences.length < 3) await new Promise((resolve) => setImmediate(resolve));
    expect(sequences.toSorted()).toEqual([1, 2, 3]);
    // Pings are answered on groups, too.
    expect((await channel.request({ contentType: 1 })).headers.getBool(2)).toBe(true);
    channel.close();
  });

  test("gives the same connection for the same key, and any where the wanted type is missing", async () => {
    const channel = await dialGroup();
    await dialUnderlay(channel, { type: DEFAULT });
    const picks = [0, 1, 2, 3, -1].map((key) => channel.underlays.indexOf(channel.underlayFor(key)));
    expect(picks).toEqual([0, 1, 0, 1, 1]);
    expect(channel.underlayFor(5, "link.ack").type).toBe(DEFAULT);
    channel.close();
  });

  test("lives as long as one connection of its first type does", async () => {
    const channel = await dialGroup();
    const far = await listener.channel();
    await dialUnderlay(channel, { type: CONTROL });
    await dialUnderlay(channel, { type: DEFAULT });
    await untilUnderlays(far, 3);
    far.underlays[0]?.close();
    await untilUnderlays(channel, 2);
    expect((await channel.request({ contentType: 1 })).headers.getBool(2)).toBe(true);
    far.underlays.find((underlay) => underlay.type === DEFAULT)?.close();
    expect(await channel.closed).toMatchObject({ code: "CLOSED_BY_PEER" });
    expect(far.isClosed).toBe(true);
    await expect(dialUnderlay(channel, { type: DEFAULT })).rejects.toThrow();
  });

  test("asks for an answer again when a connection ends: the heartbeat may have been lost with it", async () => {
    const channel = await dialGroup();
    const far = await listener.channel();
    await dialUnderlay(channel, { type: DEFAULT });
    far.enableHeartbeats({ sendIntervalMs: 60_000, checkIntervalMs: 60_000 });
    let answers = 0;
    const answered = new Promise<void>((resolve) =>
      channel.enableHeartbeats({
        sendIntervalMs: 60_000,
        checkIntervalMs: 5,
        onLatency: () => {
          answers++;
          // One for each of the two; the third is asked for again.
          if (answers === 2) channel.underlays[0]?.close();
          if (answers === 3) resolve();
        },
      }),
    );
    await answered;
    expect(channel.underlays.length).toBe(1);
  });

  test.each(["there", "back"] as const)(
    "loses a connection whose way %s is silent, and no other, though every connection reads on",
    async (direction) => {
      const way = await DisturbedWay.start(listener.port.port);
      const channel = await listener.dial({
        address: `tls:127.0.0.1:${way.port}`,
        hello: { idToken: "me", headers: first() },
      });
      const far = await listener.channel();
      await dialUnderlay(channel, { type: DEFAULT });
      await dialUnderlay(channel, { type: CONTROL });
      await untilUnderlays(far, 3);
      const [one, two, three] = channel.underlays;
      const options = { sendIntervalMs: 20, checkIntervalMs: 5 };
      far.enableHeartbeats(options);
      const whole = Promise.withResolvers<void>();
      let answers = 0;
      const onLatency = () => ++answers >= 6 && whole.resolve();
      channel.enableHeartbeats({ ...options, closeUnresponsiveMs: 400, onLatency });
      await whole.promise;
      way.silence(1, direction);
      await untilUnderlays(channel, 2);
      expect(channel.underlays).toEqual([one, three]);
      expect(two?.isClosed).toBe(true);
      // The other end hears of it by its TCP connection, and those that are left go on.
      await untilUnderlays(far, 2);
      const before = answers;
      while (answers < before + 20) await new Promise((resolve) => setImmediate(resolve));
      expect(channel.underlays).toEqual([one, three]);
      // The last one of the channel's first type takes the channel with it, whatever else answers.
      way.silence(0, direction);
      expect(await channel.closed).toMatchObject({ code: "HEARTBEAT_UNANSWERED" });
      way.close();
    },
  );

  test("loses none while no connection has an answer: the first may take three times the limit", async () => {
    const channel = await dialGroup();
    const far = await listener.channel();
    await dialUnderlay(channel, { type: DEFAULT });
    const answered = Promise.withResolvers<void>();
    let answers = 0;
    const onLatency = () => ++answers >= 20 && answered.resolve();
    const options = { sendIntervalMs: 10, checkIntervalMs: 5 };
    channel.enableHeartbeats({ ...options, closeUnresponsiveMs: 500, onLatency });
    await setTimeout(800);
    far.enableHeartbeats(options);
    await answered.promise;
    expect(channel.underlays.length).toBe(2);
  });

  test("does not lose what was queued on a connection that failed before it left", async () => {
    const channel = await dialGroup();
    const far = await listener.channel();
    await dialUnderlay(channel, { type: DEFAULT });
    await untilUnderlays(far, 2);
    const got = Promise.withResolvers<string>();
    far.handle(70, (message) => got.resolve(message.body.toString()));
    const [doomed] = channel.underlays;
    channel.send({ contentType: 70, body: Buffer.from("not lost") }, doomed);
    doomed?.close(new Error("broken"));
    expect(await got.promise).toBe("not lost");
    channel.close();
  });
});

describe("a connection that wants to join", () => {
  const dialRaw = (identity: Identity): Promise<RawChannelPeer> => RawChannelPeer.connect(listener.port.port, identity);
  const joining = (id: string, secret: Buffer): Headers =>
    new Headers().setString(0, id).setString(7, DEFAULT).setBool(9, true).set(10, secret);

  test("gets a result like the first", async () => {
    const raw = (await dialRaw(mine)).hello("me", first());
    const result = (await raw.message()).headers;
    const second = (await dialRaw(mine)).hello(
      "me",
      joining(result.getString(0)!, result.get(10)!).setString(7, CONTROL),
    );
    const joined = (await second.message()).headers;
    expect([joined.getString(0), joined.getString(7), joined.getBool(9), joined.get(10)]).toEqual([
      result.getString(0),
      CONTROL,
      true,
      result.get(10),
    ]);
    second.send({ contentType: 1 }, 4);
    const reply = await Promise.race([raw.message(), second.message()]);
    expect(reply.replyFor).toBe(4);
    raw.destroy();
    second.destroy();
  });

  test.each<[string, (id: string, secret: Buffer) => Headers, boolean]>([
    ["with a wrong secret", (id, secret) => joining(id, Buffer.from(secret.map((byte) => byte ^ 1))), true],
    ["with a secret of another length", (id, secret) => joining(id, secret.subarray(0, 15)), true],
    ["without a secret", (id) => joining(id, Buffer.alloc(0)), true],
    ["with another certificate", joining, false],
    ["to a group that does not exist", (_id, secret) => joining("unknown", secret), true],
  ])("%s is closed, and the group goes on", async (_what, headers, sameCertificate) => {
    const channel = await dialGroup();
    const far = await listener.channel();
    const secret = channel.result.get(BaseHeader.GroupSecret)!;
    const raw = await dialRaw(sameCertificate ? mine : other);
    raw.hello("me", headers(channel.connectionId, secret));
    expect((await raw.closed).length).toBe(0);
    expect(far.underlays.length).toBe(1);
    expect((await channel.request({ contentType: 1 })).replyFor).toBe(1);
    channel.close();
  });

  test("to a group that has ended is closed, unless it says it is the first", async () => {
    const channel = await dialGroup();
    const far = await listener.channel();
    const secret = channel.result.get(BaseHeader.GroupSecret)!;
    channel.close();
    await far.closed;
    const late = (await dialRaw(mine)).hello("me", joining(channel.connectionId, secret));
    expect((await late.closed).length).toBe(0);
    const again = (await dialRaw(mine)).hello("me", joining(channel.connectionId, secret).setBool(11, true));
    const result = (await again.message()).headers;
    expect([result.getString(0), result.get(10)]).toEqual([channel.connectionId, secret]);
    again.destroy();
  });

  test("makes the group under the id it brings, as links do", async () => {
    const raw = (await dialRaw(mine)).hello("link", first().setString(0, "5b1c6f0e").setString(7, "link.default"));
    const result = (await raw.message()).headers;
    expect(result.getString(0)).toBe("5b1c6f0e");
    // Links say "first" on every connection: with the secret it joins nevertheless.
    const ack = (await dialRaw(mine)).hello(
      "link",
      joining("5b1c6f0e", result.get(10)!).setBool(11, true).setString(7, "link.ack"),
    );
    await ack.message();
    expect(listener.accepted.length).toBe(1);
    expect(listener.accepted[0]?.underlays.map((underlay) => underlay.type)).toEqual(["link.default", "link.ack"]);
    raw.destroy();
    ack.destroy();
  });
});

test("a dialer that asks for a group but names none and is not its first gets a single connection", async () => {
  const raw = await RawChannelPeer.connect(listener.port.port, mine);
  raw.hello("me", new Headers().setBool(9, true).setString(7, DEFAULT));
  const result = (await raw.message()).headers;
  expect([7, 9, 10].map((key) => result.has(key))).toEqual([false, false, false]);
  expect(listener.accepted[0]?.isGrouped).toBe(false);
  raw.destroy();
});

test("a channel without a group takes no further connections", async () => {
  const channel = await listener.dial();
  expect(channel.isGrouped).toBe(false);
  await expect(dialUnderlay(channel, { type: DEFAULT })).rejects.toMatchObject({ code: "NOT_GROUPED" });
  channel.close();
});
