import { afterEach, describe, expect, test } from "vitest";
import { BaseHeader } from "../catalogue/base.ts";
import { HandshakeError } from "../errors.ts";
import { silentLogger } from "../log.ts";
import { TlsPort } from "../socket/tls-port.ts";
import { TestListener } from "../testing/channel-pair.ts";
import { freePort } from "../testing/free-ports.ts";
import type { Channel } from "./channel.ts";
import { acceptChannels } from "./listener.ts";
import { ReconnectingDialer, type ReconnectOptions } from "./reconnect.ts";

let listener: TestListener | undefined;
let dialer: ReconnectingDialer | undefined;
afterEach(async () => {
  await dialer?.stop();
  await listener?.close();
});

class Channels {
  readonly made: Channel[] = [];
  #wake: (() => void)[] = [];

  add(channel: Channel): void {
    this.made.push(channel);
    for (const wake of this.#wake.splice(0)) wake();
  }

  async nth(n: number): Promise<Channel> {
    for (;;) {
      const channel = this.made[n];
      if (channel !== undefined) return channel;
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }
}

function start(on: TestListener, channels: Channels, options: Partial<ReconnectOptions> = {}): ReconnectingDialer {
  dialer = new ReconnectingDialer({
    address: on.address,
    identity: on.identity,
    hello: { idToken: "router" },
    retryMs: 10,
    initialDelayMs: 5,
    maxDelayMs: 20,
    onChannel: (channel) => channels.add(channel),
    ...options,
  });
  dialer.start();
  return dialer;
}

describe("a reconnecting dialer", () => {
  test("replaces a channel that was lost, and names the lost connection in its hello", async () => {
    listener = await TestListener.start();
    const channels = new Channels();
    const lost: unknown[] = [];
    const running = start(listener, channels, { onDisconnect: (reason) => lost.push(reason) });
    const one = await channels.nth(0);
    expect(running.current).toBe(one);
    (await listener.channel(0)).close();
    const two = await channels.nth(1);
    expect(two).not.toBe(one);
    expect(lost).toMatchObject([{ code: "CLOSED_BY_PEER" }]);
    const hello = (await listener.channel(1)).hello;
    expect(hello.idToken).toBe("router");
    expect(hello.headers.getString(BaseHeader.ConnectionId)).toBe(one.connectionId);
    expect((await listener.channel(0)).hello.headers.has(BaseHeader.ConnectionId)).toBe(false);
    expect((await two.request({ contentType: 1 })).replyFor).toBe(1);
  });

  test("keeps trying until there is a listener", async () => {
    listener = await TestListener.start({}, undefined, await freePort());
    const { identity } = listener;
    const { port } = listener.port;
    await listener.close();
    const channels = new Channels();
    let attempts = 0;
    const tried = Promise.withResolvers<void>();
    start(listener, channels, {
      log: {
        ...silentLogger,
        warn: () => {
          if (++attempts === 3) tried.resolve();
        },
      },
    });
    await tried.promise;
    expect(channels.made).toEqual([]);
    const again = await TlsPort.listen({ host: "127.0.0.1", port, identity });
    acceptChannels(again, {
      name: "ctrl",
      protocols: ["ziti-ctrl"],
      acceptsNoAlpn: true,
      id: "ctrl",
      log: silentLogger,
      onChannel() {},
    });
    expect((await channels.nth(0)).remoteId).toBe("ctrl");
    await dialer?.stop();
    await again.close();
  });

  test("waits longer after each failure, up to the bound, and starts again with a connection that held", async () => {
    listener = await TestListener.start();
    const channels = new Channels();
    const waits: number[] = [];
    const enough = Promise.withResolvers<void>();
    // A lost connection is logged as information, a failed attempt as a warning.
    const wait = (fields: object): void => {
      waits.push(Number((fields as { retryInMs: number }).retryInMs));
      if (waits.length === 6) enough.resolve();
    };
    start(listener, channels, {
      initialDelayMs: 8,
      retryMs: 40,
      log: {
        ...silentLogger,
        info: wait,
        warn: wait,
      },
    });
    await channels.nth(0);
    await listener.close();
    await enough.promise;
    const expected = [8, 16, 32, 40, 40];
    const begun = waits[0] === 0 ? waits.slice(1) : waits;
    for (const [i, wait] of begun.slice(0, 5).entries()) {
      expect(Math.abs(wait - (expected[i] ?? 0))).toBeLessThanOrEqual((expected[i] ?? 0) / 4 + 1);
    }
  });

  test("goes on when the listener accepts and closes, or refuses", async () => {
    let refusals = 2;
    let attempts = 0;
    listener = await TestListener.start({
      authorize: async () => {
        if (refusals-- > 0) throw new HandshakeError("NO", "not yet");
      },
      onChannel: (channel) => {
        if (++attempts < 3) setImmediate(() => channel.close());
      },
    });
    const channels = new Channels();
    start(listener, channels);
    const third = await channels.nth(2);
    expect((await third.request({ contentType: 1 })).replyFor).toBe(1);
  });

  test("stops while connected, while waiting and while dialling", async () => {
    listener = await TestListener.start();
    const channels = new Channels();
    const connected = start(listener, channels);
    const channel = await channels.nth(0);
    await connected.stop();
    expect(channel.isClosed).toBe(true);
    expect(connected.current).toBeUndefined();

    const waiting = start(listener, channels, { address: "tls:127.0.0.1:1", initialDelayMs: 3_600_000 });
    await new Promise((resolve) => setImmediate(resolve));
    await waiting.stop();

    const dialling = start(listener, channels);
    await dialling.stop();
    expect(channels.made.length).toBe(1);
    dialling.start();
    expect(await channels.nth(1)).toBeDefined();
    await dialling.stop();
  });

  test("stops with its signal", async () => {
    listener = await TestListener.start();
    const channels = new Channels();
    const abort = new AbortController();
    start(listener, channels, { signal: abort.signal });
    const channel = await channels.nth(0);
    abort.abort();
    await channel.closed;
    await dialer?.stop();
    expect(channels.made.length).toBe(1);
  });

  test("survives an owner that throws", async () => {
    listener = await TestListener.start();
    const channels = new Channels();
    let calls = 0;
    start(listener, channels, {
      onChannel: (channel) => {
        if (++calls === 1) throw new Error("not ready");
        channels.add(channel);
      },
      onDisconnect: () => {
        throw new Error("neither");
      },
    });
    expect((await channels.nth(0)).isClosed).toBe(false);
  });
});
