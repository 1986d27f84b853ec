/** What the two ends of a link say to each other when it is made: hellos, results, halves and further connections. */
import {
  acceptChannels,
  type Channel,
  dialChannel,
  dialUnderlay,
  Headers,
  type Identity,
  LINK_ALPN,
  LinkHello,
  LinkUnderlay,
  SplitLinkChannel,
  silentLogger,
  TlsPort,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { Link } from "./link.ts";
import { acceptLinks } from "./link-accept.ts";
import { dialLink, type LinkDialRequest } from "./link-dial.ts";

let alpha: Identity;
let beta: Identity;
let gamma: Identity;
let port: TlsPort;
let stops: (() => void)[];
/** Links that beta accepted. */
let links: Link[];
let wake: () => void = () => {};
const HALF_MS = 300;

beforeAll(async () => {
  const authority = await TestAuthority.create();
  const ip = ["127.0.0.1", "::1"];
  alpha = await authority.identity("alpha", { ip });
  beta = await authority.identity("beta", { ip });
  gamma = await authority.identity("gamma", { ip });
});

describe.each(["127.0.0.1", "::1"])("links over %s", (host) => {
  const address = () => `tls:${host === "::1" ? "[::1]" : host}:${port.port}`;

  beforeEach(async () => {
    links = [];
    stops = [];
    port = await TlsPort.listen({ host, port: 0, identity: beta });
  });
  afterEach(async () => {
    for (const link of links) link.close();
    for (const stop of stops) stop();
    await port.close();
  });

  function listen(halfTimeoutMs = 20_000): void {
    stops.push(
      acceptLinks({
        port,
        routerId: "beta",
        identity: () => beta,
        protocol: "tls",
        localBinding: "",
        advertise: address(),
        helloTimeoutMs: 3000,
        halfTimeoutMs,
        verify: async () => {},
        onLink: (link) => {
          links.push(link);
          wake();
        },
        log: silentLogger,
      }),
    );
  }

  async function accepted(): Promise<Link> {
    while (links[0] === undefined) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    return links[0];
  }

  const request = (o: Partial<LinkDialRequest> = {}): LinkDialRequest => ({
    linkId: "4QyVhY0GyNqFpsx2ZcAKYe",
    iteration: 3,
    form: "grouped",
    peerId: "beta",
    peerVersion: "v1.6.20",
    address: address(),
    dialerBinding: "eth0",
    timeoutMs: 3000,
    ...o,
  });
  const own = (signal = AbortSignal.timeout(20_000)) => ({
    routerId: "alpha",
    identity: alpha,
    log: silentLogger,
    signal,
  });

  /** A connection of its own, as a dialer of links would make it. */
  const dialPart = (more: (headers: Headers) => Headers, identity = alpha): Promise<Channel> =>
    dialChannel({
      address: address(),
      identity,
      alpn: LINK_ALPN,
      hello: {
        idToken: "link",
        headers: more(
          new Headers()
            .setString(LinkHello.ConnectionId, "one")
            .setString(LinkHello.RouterId, "alpha")
            .setU32(LinkHello.Iteration, 1),
        ),
      },
      timeoutMs: 3000,
    });
  const half = (type: number) => (headers: Headers) => headers.setByte(LinkHello.ChannelType, type);

  describe("the hello of a dialer", () => {
    it.each([
      ["grouped", [0, 2, 3, 4, 5, 7, 9, 11]],
      ["split", [0, 2, 3, 4, 5, 1]],
      ["single", [0, 2, 3, 4, 5]],
    ] as const)("%s: its headers, with the version of the router that is dialled", async (form, keys) => {
      const hellos: Channel[] = [];
      stops.push(
        acceptChannels(port, {
          name: "link",
          protocols: [LINK_ALPN],
          acceptsNoAlpn: false,
          id: "beta",
          grouped: true,
          onChannel: (channel) => hellos.push(channel),
          log: silentLogger,
        }),
      );
      const dialed = await dialLink(request({ form, peerVersion: "v1.6.0" }), own());
      expect(dialed.form).toBe(form);
      const [first, second] = hellos;
      expect(first?.hello.idToken).toBe("4QyVhY0GyNqFpsx2ZcAKYe");
      const { headers } = first!.hello;
      expect([...headers.entries()].map(([key]) => key).toSorted((a, b) => a - b)).toEqual(
        [...keys].toSorted((a, b) => a - b),
      );
      expect(headers.getString(LinkHello.ConnectionId)).toMatch(/^[0-9a-f-]{36}$/);
      expect([
        headers.getString(LinkHello.RouterId),
        headers.getString(LinkHello.RouterVersion),
        headers.getString(LinkHello.Binding),
        headers.getU32(LinkHello.Iteration),
      ]).toEqual(["alpha", "v1.6.0", "eth0", 3]);
      expect(second?.hello.headers.getByte(LinkHello.ChannelType)).toBe(
        form === "split" ? SplitLinkChannel.Ack : undefined,
      );
      if (form === "split") {
        expect(headers.getByte(LinkHello.ChannelType)).toBe(SplitLinkChannel.Payload);
        expect(second?.hello.headers.getString(LinkHello.ConnectionId)).toBe(headers.getString(LinkHello.ConnectionId));
      }
      dialed.channel.close();
      dialed.ackChannel?.close();
    });

    it("a listener that does not grant the group gets a single link", async () => {
      stops.push(
        acceptChannels(port, {
          name: "link",
          protocols: [LINK_ALPN],
          acceptsNoAlpn: false,
          id: "beta",
          onChannel: () => {},
          log: silentLogger,
        }),
      );
      const dialed = await dialLink(request(), own());
      expect([dialed.form, dialed.channel.isGrouped]).toEqual(["single", false]);
      await expect(dialUnderlay(dialed.channel, { type: LinkUnderlay.Ack })).rejects.toMatchObject({
        code: "NOT_GROUPED",
      });
      dialed.channel.close();
    });

    it("a failed second half ends the first", async () => {
      const channels: Channel[] = [];
      stops.push(
        acceptChannels(port, {
          name: "link",
          protocols: [LINK_ALPN],
          acceptsNoAlpn: false,
          id: "beta",
          authorize: async () => {
            if (channels.length > 0) throw new Error("no second one");
          },
          onChannel: (channel) => channels.push(channel),
          log: silentLogger,
        }),
      );
      await expect(dialLink(request({ form: "split" }), own())).rejects.toThrow();
      await channels[0]!.closed;
    });
  });

  describe("a further connection", () => {
    it("joins with the group's secret, whatever it says of being the first", async () => {
      listen();
      const dialed = await dialLink(request(), own());
      const link = await accepted();
      await dialUnderlay(dialed.channel, { type: LinkUnderlay.Ack });
      while (link.count(LinkUnderlay.Ack) === 0) await new Promise((resolve) => setImmediate(resolve));
      expect(link.connections().map(({ type }) => type)).toEqual([LinkUnderlay.Default, LinkUnderlay.Ack]);
      // Dialers of 1.6.20 leave header 11 on.
      const secret = dialed.channel.result.get(LinkHello.GroupSecret)!;
      const joined = await dialPart(() =>
        dialed.channel.hello.headers
          .clone()
          .setString(LinkHello.ConnectionId, dialed.channel.connectionId)
          .set(LinkHello.GroupSecret, secret),
      );
      expect(links).toHaveLength(1);
      expect(link.count(LinkUnderlay.Default)).toBe(2);
      joined.close();
      dialed.channel.close();
    });

    it.each([
      ["another router's certificate, with the right secret", () => gamma, (secret: Buffer) => secret],
      ["the right certificate, with another secret", () => alpha, () => Buffer.alloc(16, 1)],
      ["the right certificate, without a secret", () => alpha, () => Buffer.alloc(0)],
    ])("with %s is closed, and the link goes on", async (_what, identity, secretOf) => {
      listen();
      const dialed = await dialLink(request(), own());
      const link = await accepted();
      const refused = dialPart(
        () =>
          dialed.channel.hello.headers
            .clone()
            .setString(LinkHello.ConnectionId, dialed.channel.connectionId)
            .set(LinkHello.GroupSecret, secretOf(dialed.channel.result.get(LinkHello.GroupSecret)!)),
        identity(),
      );
      await expect(refused).rejects.toThrow();
      expect([link.isClosed, link.count(LinkUnderlay.Default), links.length]).toEqual([false, 1, 1]);
      dialed.channel.close();
    });

    it("the link ends with its last default connection, though one for acknowledgements is left", async () => {
      listen();
      const dialed = await dialLink(request(), own());
      const link = await accepted();
      await dialUnderlay(dialed.channel, { type: LinkUnderlay.Ack });
      while (link.count(LinkUnderlay.Ack) === 0) await new Promise((resolve) => setImmediate(resolve));
      link.channel.underlays.find((underlay) => underlay.type === LinkUnderlay.Default)?.close();
      await dialed.channel.closed;
      expect([link.isClosed, dialed.channel.underlays.length]).toEqual([true, 0]);
    });
  });

  describe("the halves of a split link", () => {
    it.each([
      ["payloads first", [SplitLinkChannel.Payload, SplitLinkChannel.Ack]],
      ["acknowledgements first", [SplitLinkChannel.Ack, SplitLinkChannel.Payload]],
    ])("%s: become one link, of which the payload half is measured", async (_order, types) => {
      listen();
      const channels = [await dialPart(half(types[0]!)), await dialPart(half(types[1]!))];
      const link = await accepted();
      expect([link.form, links.length]).toEqual(["split", 1]);
      expect(link.channel.hello.headers.getByte(LinkHello.ChannelType)).toBe(SplitLinkChannel.Payload);
      expect(link.connections().map(({ type }) => type)).toEqual(["payload", "ack"]);
      link.close();
      await Promise.all(channels.map((channel) => channel.closed));
    });

    it("one that stays alone is closed", async () => {
      listen(HALF_MS);
      const started = performance.now();
      const lonely = await dialPart(half(SplitLinkChannel.Payload));
      await lonely.closed;
      expect(performance.now() - started).toBeGreaterThanOrEqual(HALF_MS * 0.9);
      expect(links).toEqual([]);
    });

    it("a second one of the same type is refused, and so is another router's", async () => {
      listen();
      const first = await dialPart(half(SplitLinkChannel.Payload));
      const same = await dialPart(half(SplitLinkChannel.Payload));
      await same.closed;
      const foreign = await dialPart(half(SplitLinkChannel.Ack), gamma);
      await foreign.closed;
      expect(links).toEqual([]);
      expect(first.isClosed).toBe(false);
      await dialPart(half(SplitLinkChannel.Ack));
      expect((await accepted()).form).toBe("split");
    });
  });
});
