/** Links that answer late, not at all, or only at first. */
import {
  acceptChannels,
  type Channel,
  Headers,
  type Identity,
  LINK_ALPN,
  LinkHello,
  LinkUnderlay,
  silentLogger,
  TlsPort,
} from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { dialer, healthy, type LinkRouter, startLinkRouter } from "../testing/link-router.ts";
import type { PeerChange } from "./dial-state.ts";
import { Link } from "./link.ts";
import { acceptLinks } from "./link-accept.ts";
import { dialLink } from "./link-dial.ts";

const MARKER = 8_888_888_888_888;
let alpha: Identity;
let beta: Identity;
const running: { close(): unknown }[] = [];

beforeAll(async () => {
  const authority = await TestAuthority.create();
  alpha = await authority.identity("alpha");
  beta = await authority.identity("beta");
});
afterEach(async () => {
  vi.restoreAllMocks();
  for (const each of running.splice(0).reverse()) await each.close();
});

const until = (condition: () => boolean) => vi.waitFor(() => expect(condition()).toBe(true), { timeout: 10_000 });
const track = <T extends { close(): unknown }>(each: T): T => {
  running.push(each);
  return each;
};

/** A router of the peer's kind: it grants a link first and asks afterwards who dials; `taken` decides. */
async function grantingRouter(taken: (channel: Channel) => void): Promise<string> {
  const port = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: beta });
  const stop = acceptChannels(port, {
    name: "link",
    protocols: [LINK_ALPN],
    acceptsNoAlpn: false,
    id: "beta",
    grouped: true,
    onChannel: taken,
    log: silentLogger,
  });
  running.push({ close: () => port.close() }, { close: stop });
  return `tls:localhost:${port.port}`;
}

/** What a controller says of a router "beta" that is dialled at `address`. */
const betaAt = (address: string, more: Partial<PeerChange> = {}): PeerChange => ({
  id: "beta",
  version: "v1.6.20",
  state: "healthy",
  listeners: [{ address, protocol: "tls", groups: ["default"], localBinding: "" }],
  ...more,
});

async function startAlpha(more: Partial<Parameters<typeof startLinkRouter>[1]> = {}): Promise<LinkRouter> {
  return track(
    await startLinkRouter("alpha", {
      identity: alpha,
      dialers: [{ ...dialer, maxDefaultConnections: 1, maxAckConnections: 0 }],
      ...more,
    }),
  );
}

/** The link that beta dials to alpha, with this id. */
async function dialFromBeta(address: string, linkId: string) {
  const dialed = await dialLink(
    {
      linkId,
      iteration: 1,
      form: "single",
      peerId: "alpha",
      peerVersion: "v1.6.20",
      address,
      dialerBinding: "",
      timeoutMs: 3000,
    },
    { routerId: "beta", identity: beta, log: silentLogger, signal: AbortSignal.timeout(20_000) },
  );
  // As every router, it answers heartbeats.
  dialed.channel.enableHeartbeats({ sendIntervalMs: 10_000, checkIntervalMs: 20 });
  return dialed.channel;
}

describe("a duplicate that the other end grants and then refuses", () => {
  it("costs nothing: the link that was there before goes on, and no controller hears of a duplicate", async () => {
    const refused: Channel[] = [];
    const address = await grantingRouter((channel) => {
      refused.push(channel);
      setTimeout(() => channel.close(), 50);
    });
    const router = await startAlpha();
    const listener = { address, protocol: "tls", groups: ["default"] };
    const change = (localBinding: string) => ({
      ...healthy(router),
      id: "beta",
      listeners: [{ ...listener, localBinding }],
    });
    // A wish whose dials are refused, and then the link of the other router, which has the lowest precedence there is.
    router.links.peersChanged([change("")]);
    await until(() => refused.length > 0);
    const theirs = await dialFromBeta(router.address, "zzzzzzzzzzzzzzzzzzzzzz");
    const mine = router.links.states()[0];
    // A dial may have been under way.
    await until(() => mine?.status === "established" && router.links.links().some((link) => !link.isDialed));
    // As it is when both were dialled at the same time: ours wins, and is refused before it has proved itself.
    Object.assign(mine!, { status: "linkFailed", nextDial: 0 });
    const before = refused.length;
    await until(() => refused.length > before);
    await refused.at(-1)?.closed;
    await until(() => router.links.links().some((link) => !link.isDialed));
    expect(theirs.isClosed).toBe(false);
    expect(router.reported.map(([what]) => what)).not.toContain("duplicate");
    await until(() => mine?.status === "established");
  });

  it("is tried again when the link that was there is gone", async () => {
    let refusals = 0;
    const address = await grantingRouter((channel) => {
      refusals++;
      setImmediate(() => channel.close());
    });
    const router = await startAlpha();
    router.links.peersChanged([betaAt(address)]);
    await until(() => refusals >= 1);
    const theirs = await dialFromBeta(router.address, "zzzzzzzzzzzzzzzzzzzzzz");
    const [mine] = router.links.states();
    // A dial may have been under way.
    await until(() => mine?.status === "established" && router.links.links().some((link) => !link.isDialed));
    const before = refusals;
    theirs.close();
    await until(() => refusals > before);
    await until(() => router.reported.some(([what, link]) => what === "failed" && !link.isDialed));
  });
});

describe("a link that does not answer", () => {
  it("is closed after the heartbeat timeout, its failure is told, and it is dialled again", async () => {
    const channels: Channel[] = [];
    const address = await grantingRouter((channel) => {
      channels.push(channel);
      for (const underlay of channel.underlays) underlay.pause();
    });
    const router = await startAlpha({
      heartbeats: { sendInterval: 50, checkInterval: 10, closeUnresponsiveTimeout: 100 },
    });
    router.links.peersChanged([betaAt(address)]);
    await until(() => channels.length >= 2);
    const failed = router.reported.find(([what]) => what === "failed");
    expect(failed?.[1].iteration).toBe(1);
    expect(await failed?.[1].channel.closed).toMatchObject({ code: "HEARTBEAT_UNANSWERED" });
  });

  it.each([
    ["payloads", 0],
    ["acknowledgements", 1],
  ])("split: answers heartbeats on both halves, and ends when the one for %s is silent", async (_what, silent) => {
    const halves: Channel[] = [];
    const answered = [0, 0];
    const address = await grantingRouter((channel) => {
      const at = halves.push(channel) - 1;
      // As OpenZiti's routers: either half is closed when it gets no answer.
      const onLatency = (): void => {
        answered[at] = (answered[at] ?? 0) + 1;
      };
      channel.enableHeartbeats({ sendIntervalMs: 20, checkIntervalMs: 5, closeUnresponsiveMs: 2_000, onLatency });
    });
    const router = await startAlpha({
      heartbeats: { sendInterval: 20, checkInterval: 10, closeUnresponsiveTimeout: 300 },
    });
    router.links.peersChanged([betaAt(address, { version: "v1.6.0" })]);
    await until(() => answered.every((count) => count > 2));
    const [link] = router.links.links();
    expect([link?.form, link?.iteration, halves.length]).toEqual(["split", 1, 2]);
    for (const underlay of halves[silent]?.underlays ?? []) underlay.pause();
    await until(() => halves.length === 4);
    expect(link?.isClosed).toBe(true);
    expect(await (silent === 0 ? link?.channel : link?.ackChannel)?.closed).toMatchObject({
      code: "HEARTBEAT_UNANSWERED",
    });
    await until(() => router.links.links()[0]?.iteration === 2);
  });

  it("costs so much after 30 s that no path is laid over it, and what it costs when it answers again", async () => {
    const port = track(await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: beta }));
    const stop = acceptLinks({
      port,
      routerId: "beta",
      identity: () => beta,
      protocol: "tls",
      localBinding: "",
      advertise: "",
      helloTimeoutMs: 3000,
      verify: async () => {},
      onLink: () => {},
      log: silentLogger,
    });
    running.push({ close: stop });
    const dialed = await dialLink(
      {
        linkId: "l",
        iteration: 1,
        form: "grouped",
        peerId: "beta",
        peerVersion: "v1.6.20",
        address: `tls:localhost:${port.port}`,
        dialerBinding: "",
        timeoutMs: 3000,
      },
      { routerId: "alpha", identity: alpha, log: silentLogger, signal: AbortSignal.timeout(20_000) },
    );
    const link = new Link({
      id: "l",
      key: "k",
      peerId: "beta",
      peerVersion: "",
      iteration: 1,
      protocol: "tls",
      dialAddress: "",
      isDialed: true,
      ...dialed,
    });
    expect(link.histograms().map(([name]) => name)).toEqual(["link.l.latency", "link.l.queue_time"]);
    const start = performance.now();
    link.answered(2_000_000);
    expect(link.latency.mean).toBe(2_000_000);
    expect(link.checkAnswers(start + 29_000)).toBe(false);
    expect(link.checkAnswers(start + 31_000)).toBe(true);
    expect([link.latency.count, link.latency.mean]).toEqual([1, MARKER]);
    // Told once, and it stays.
    expect(link.checkAnswers(start + 60_000)).toBe(false);
    expect(link.latency.mean).toBe(MARKER);
    link.answered(3_000_000);
    expect([link.latency.count, link.latency.mean]).toEqual([1, 3_000_000]);

    link.probeQueue();
    await until(() => link.queueTime.count === 1);
    expect(link.queueTime.mean).toBeGreaterThanOrEqual(0);
    const held = dialed.channel.underlays[0]!.output;
    const headers = new Headers().setString(LinkHello.RouterId, "x");
    for (let i = 0; i < 100; i++) dialed.channel.send({ contentType: 999, headers, body: Buffer.alloc(60_000) });
    for (let i = 0; i < 5; i++) link.probeQueue();
    expect(held.pending).toBeGreaterThan(0);
    await until(() => link.queueTime.count === 3);
    expect(link.queueTime.snapshot().max).toBeGreaterThan(0);
    expect(dialed.channel.underlays[0]?.type).toBe(LinkUnderlay.Default);
    link.close();
    link.probeQueue();
    expect(link.queueTime.count).toBe(3);
  });
});

describe("a jump of the system's clock", () => {
  it.each([
    ["a day ahead", 86_400_000],
    ["a day back", -86_400_000],
  ])("%s closes no link, marks none, and holds up no dial", async (_what, jump) => {
    const router = await startAlpha({
      heartbeats: { sendInterval: 30, checkInterval: 10, closeUnresponsiveTimeout: 5_000 },
    });
    const other = track(await startLinkRouter("beta", { identity: beta }));
    router.links.peersChanged([healthy(other)]);
    await until(() => router.reported.some(([what]) => what === "measured"));
    const link = router.links.links()[0]!;
    const now = Date.now;
    vi.spyOn(Date, "now").mockImplementation(() => now() + jump);
    const answered = link.latency.count;
    await until(() => link.latency.count > answered + 2);
    expect([link.isClosed, link.latency.mean < MARKER, link.iteration]).toEqual([false, true, 1]);
    other.links.links()[0]?.close();
    await until(() => router.links.links()[0]?.iteration === 2);
  });
});
