import { createHash, randomBytes } from "node:crypto";
import { BaseHeader, type Channel, dialUnderlay, Headers, type Underlay } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { DEFAULT_EDGE_OPTIONS } from "../testing/default-options.ts";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { type TestConnection, TestSdk } from "../testing/test-sdk.ts";
import { DataCircuit } from "./data-circuit.ts";
import { edgeCounters } from "./edge-counters.ts";
import { SdkChannel, type SdkRequests } from "./sdk-channel.ts";
import { opaqueGrant, opaqueSession } from "./sdk-session.ts";

const PAYLOAD = 1100;
const HEARTBEAT = 5;
const MiB = 1024 * 1024;

let network: TestNetwork;
let a: TestRouter;
let b: TestRouter;
const sdks: TestSdk[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  a = await network.addRouter("rA");
  b = await network.addRouter("rB");
});

afterEach(async () => {
  for (const sdk of sdks.splice(0)) sdk.close();
  await network.close();
});

async function client(router: TestRouter, name: string): Promise<TestSdk> {
  const sdk = await TestSdk.connect(router.port.port, await network.client(name));
  sdks.push(sdk);
  return sdk;
}

async function pair(dialer: TestSdk, hoster: TestSdk, service = "web"): Promise<[TestConnection, TestConnection]> {
  const accepted = Promise.withResolvers<TestConnection>();
  hoster.onConnection = (connection) => accepted.resolve(connection);
  const near = await dialer.connect(network.session(service, "Dial"));
  return [near, await accepted.promise];
}

function send(from: TestConnection, bytes: number, size: number): { hash: string; done: Promise<void> } {
  const hash = createHash("sha256");
  const bodies: Buffer[] = [];
  for (let sent = 0; sent < bytes; sent += size) {
    const body = randomBytes(Math.min(size, bytes - sent));
    hash.update(body);
    bodies.push(body);
  }
  const run = async (): Promise<void> => {
    for (const body of bodies) {
      from.send(body);
      await from.drained();
    }
  };
  return { hash: hash.digest("hex"), done: run() };
}

function hashing(to: TestConnection): () => string {
  const hash = createHash("sha256");
  to.onData = (buffer, start, end) => hash.update(buffer.subarray(start, end));
  return () => hash.digest("hex");
}

test("many clients that do not read leave half of the memory of both routers to circuits that move", async () => {
  const forwarder = { circuitMemoryBytes: 4 * MiB };
  const from = await network.addRouter("rC", { forwarder });
  const to = await network.addRouter("rD", { forwarder });
  await network.link(from, to);
  const slow = await client(to, "slow");
  await slow.bind(network.session("slow", "Bind"));
  const alice = await client(from, "alice");
  const stuck: TestConnection[] = [];
  for (let i = 0; i < 8; i++) stuck.push((await pair(alice, slow, "slow"))[0]);
  for (const underlay of slow.channel.underlays) underlay.pause();
  for (const one of stuck) send(one, 3 * MiB, 16_000).done.catch(() => {});
  await vi.waitFor(() => expect(to.forwarder.pool.parkedBytes).toBeGreaterThan(1.5 * MiB), { timeout: 20_000 });
  // All that the sending ends hold counts apart once it is seen that it does not move.
  const { pool } = from.forwarder;
  await vi.waitFor(() => expect(pool.parkedBytes).toBe(pool.lentBytes), { timeout: 20_000 });
  for (const router of [from, to]) {
    expect(router.forwarder.pool.share).toBeGreaterThanOrEqual(2 * MiB);
    expect(router.forwarder.pool.lentBytes).toBeLessThan(10 * MiB);
  }
  const quick = await client(to, "quick");
  await quick.bind(network.session("quick", "Bind"));
  const [near, far] = await pair(await client(from, "carol"), quick, "quick");
  const got = hashing(far);
  const { hash } = send(near, 4 * MiB, 8_000);
  await far.whenReceived(4 * MiB);
  expect(got()).toBe(hash);
});

test("a link that loses payloads costs retransmissions, never bytes or their order", async () => {
  const { accepted } = await network.link(a, b);
  const hoster = await client(b, "bob");
  await hoster.bind(network.session("web", "Bind"));
  const [near, far] = await pair(await client(a, "alice"), hoster);
  const forward = accepted.onFrame as NonNullable<typeof accepted.onFrame>;
  let count = 0;
  let lost = 0;
  accepted.onFrame = (frame, underlay) => {
    if (frame.contentType === PAYLOAD && count++ % 7 === 3) {
      lost++;
      return true;
    }
    return forward(frame, underlay);
  };
  const got = hashing(far);
  const { hash, done } = send(near, 2 * MiB, 9_000);
  await done;
  await far.whenReceived(2 * MiB);
  expect(got()).toBe(hash);
  expect(lost).toBeGreaterThan(20);
});

test("a client that does not read stops its own sender, within bounds, and no other sender", async () => {
  await network.link(a, b);
  const slow = await client(b, "slow");
  const quick = await client(b, "quick");
  await slow.bind(network.session("slow", "Bind"));
  await quick.bind(network.session("quick", "Bind"));
  const [stuck, unread] = await pair(await client(a, "alice"), slow, "slow");
  for (const underlay of slow.channel.underlays) underlay.pause();
  const total = 24 * MiB;
  const flood = send(stuck, total, 16_000);
  const [near, far] = await pair(await client(a, "carol"), quick, "quick");
  const got = hashing(far);
  const { hash } = send(near, 4 * MiB, 8_000);
  await far.whenReceived(4 * MiB);
  expect(got()).toBe(hash);
  expect(unread.received).toBeLessThan(total);
  const details = Object.values(
    (
      b.forwarder.inspectCircuit([...network.circuits.keys()][0] as string) as {
        xgressDetails: Record<string, unknown>;
      }
    ).xgressDetails,
  )[0] as { recvBufferDetail: { size: number } };
  expect(details.recvBufferDetail.size).toBeLessThan(9 * MiB);
  const after = hashing(unread);
  for (const underlay of slow.channel.underlays) underlay.resume();
  await flood.done;
  await unread.whenReceived(total);
  expect(after()).toBe(flood.hash);
});

test("an SDK that is not read because one of its circuits is stuck still sees that the router lives", async () => {
  const patient = await network.addRouter("rP", { edge: { stoppedHeartbeatMs: 20 } });
  const slow = await client(patient, "slow");
  await slow.bind(network.session("slow", "Bind"));
  const dialer = await client(patient, "alice");
  const [stuck, unread] = await pair(dialer, slow, "slow");
  for (const underlay of slow.channel.underlays) underlay.pause();
  const alive = Promise.withResolvers<void>();
  dialer.channel.handle(HEARTBEAT, () => alive.resolve());
  const flood = send(stuck, 24 * MiB, 16_000);
  await alive.promise;
  for (const underlay of slow.channel.underlays) underlay.resume();
  await flood.done;
  await unread.whenReceived(24 * MiB);
});

test("connections that join a client's channel while it is stuck overtake nothing", async () => {
  const headers = new Headers()
    .setBool(BaseHeader.IsGrouped, true)
    .setBool(BaseHeader.IsFirstGroupConnection, true)
    .setString(BaseHeader.Type, "edge.default");
  const hoster = await TestSdk.connect(a.port.port, await network.client("bob"), { headers });
  sdks.push(hoster);
  await hoster.bind(network.session("web", "Bind"));
  const [near, far] = await pair(await client(a, "alice"), hoster);
  const got = hashing(far);
  for (const underlay of hoster.channel.underlays) underlay.pause();
  const total = 24 * MiB;
  const flood = send(near, total, 16_000);
  const [circuitId] = [...network.circuits.keys()] as [string];
  const waiting = (): number =>
    Math.max(
      ...Object.values(
        (a.forwarder.inspectCircuit(circuitId) as { xgressDetails: Record<string, { queuedToDeliver: number }> })
          .xgressDetails,
      ).map((detail) => detail.queuedToDeliver),
    );
  await vi.waitFor(() => expect(waiting()).toBeGreaterThan(10), 10_000);
  // Two more: by three, the hosting connection's id falls to another one than by one.
  for (let i = 0; i < 2; i++) await dialUnderlay(hoster.channel, { type: "edge.default" });
  for (const underlay of hoster.channel.underlays) underlay.resume();
  await flood.done;
  await far.whenReceived(total);
  expect(got()).toBe(flood.hash);
});

test("a stuck circuit stops the reading of connections, too, that join the channel later", () => {
  const paused = new Set<string>();
  const underlay = (name: string) => ({ pause: () => paused.add(name), resume: () => paused.delete(name) });
  const underlays = [underlay("first")];
  const channel = { underlays: underlays as unknown as Underlay[], isClosed: false } as unknown as Channel;
  const session = opaqueSession({ id: "s", token: "t", identityId: "i", certFingerprints: [] });
  const sdk = new SdkChannel(channel, session, {
    requests: {} as SdkRequests,
    options: DEFAULT_EDGE_OPTIONS,
    counts: edgeCounters(),
  });
  const stuck = new DataCircuit(sdk, 1, opaqueGrant("token", "Dial"));
  sdk.stopReadingFor(stuck);
  underlays.push(underlay("second"));
  sdk.stopReadingFor(stuck);
  expect([...paused]).toEqual(["first", "second"]);
  sdk.resumeReadingFor(stuck);
  expect(paused.size).toBe(0);
});

test("a transit router forwards frames unchanged but for their sequence", async () => {
  const middle = await network.addRouter("rM");
  const first = await network.link(a, middle);
  const second = await network.link(middle, b);
  network.via = ["rM"];
  const hoster = await client(b, "bob");
  await hoster.bind(network.session("web", "Bind"));
  const sent: string[] = [];
  const arrived: string[] = [];
  const tap = (channel: typeof first.accepted, into: string[]): void => {
    const forward = channel.onFrame as NonNullable<typeof channel.onFrame>;
    channel.onFrame = (frame, underlay) => {
      if (frame.contentType === PAYLOAD) {
        const bytes = Buffer.from(frame.buffer.subarray(frame.start, frame.end));
        bytes.fill(0, 8, 12);
        into.push(bytes.toString("hex"));
      }
      return forward(frame, underlay);
    };
  };
  tap(first.accepted, sent);
  tap(second.accepted, arrived);
  const [near, far] = await pair(await client(a, "alice"), hoster);
  const got = hashing(far);
  const { hash } = send(near, 100_000, 5_000);
  await far.whenReceived(100_000);
  expect(got()).toBe(hash);
  // What is sent twice may still be between them.
  await vi.waitFor(() => expect(arrived).toEqual(sent), 10_000);
  expect(arrived.length).toBeGreaterThan(20);
});

test("two links that push against each other through a full transit router both go on", async () => {
  const middle = await network.addRouter("rM", { forwarder: { transitBufferBytes: 128 * 1024 } });
  await network.link(a, middle);
  await network.link(middle, b);
  network.via = ["rM"];
  const atB = await client(b, "bob");
  const atA = await client(a, "alice");
  await atB.bind(network.session("atB", "Bind"));
  await atA.bind(network.session("atA", "Bind"));
  const [n1, f1] = await pair(await client(a, "carol"), atB, "atB");
  const [n2, f2] = await pair(await client(b, "dave"), atA, "atA");
  const h1 = hashing(f1);
  const h2 = hashing(f2);
  const up = send(n1, 6 * MiB, 16_000);
  const down = send(n2, 6 * MiB, 16_000);
  await Promise.all([f1.whenReceived(6 * MiB), f2.whenReceived(6 * MiB)]);
  expect(h1()).toBe(up.hash);
  expect(h2()).toBe(down.hash);
  expect(middle.forwarder.budget.bytes).toBe(0);
  expect(middle.forwarder.budget.paused).toBe(0);
});

test("a circuit survives the loss of its link when it is routed over another", async () => {
  const { dialed } = await network.link(a, b);
  const hoster = await client(b, "bob");
  await hoster.bind(network.session("web", "Bind"));
  const [near, far] = await pair(await client(a, "alice"), hoster);
  const [circuitId] = [...network.circuits.keys()] as [string];
  const addressAt = (router: TestRouter): string =>
    Object.keys(
      (router.forwarder.inspectCircuit(circuitId) as { xgressDetails: Record<string, unknown> }).xgressDetails,
    )[0] as string;
  const ingress = addressAt(a);
  const egress = addressAt(b);
  const got = hashing(far);
  const { hash, done } = send(near, 8 * MiB, 16_000);
  await far.whenReceived(MiB);
  dialed.close();
  await dialed.closed;
  await network.link(a, b);
  await network.reroute(circuitId, ingress, egress);
  await done;
  await far.whenReceived(8 * MiB);
  expect(got()).toBe(hash);
});

test("what cannot be forwarded is reported once per interval and owner", async () => {
  const { accepted } = await network.link(a, b);
  const hoster = await client(b, "bob");
  await hoster.bind(network.session("web", "Bind"));
  const [near] = await pair(await client(a, "alice"), hoster);
  const [circuitId] = [...network.circuits.keys()] as [string];
  b.forwarder.unroute(circuitId, true);
  const seen = Promise.withResolvers<void>();
  const forward = accepted.onFrame as NonNullable<typeof accepted.onFrame>;
  accepted.onFrame = (frame, underlay) => {
    const taken = forward(frame, underlay);
    if (frame.contentType === PAYLOAD) seen.resolve();
    return taken;
  };
  near.send(Buffer.from("to nobody"));
  near.send(Buffer.from("to nobody"));
  await seen.promise;
  b.forwarder.flushFaults();
  b.forwarder.flushFaults();
  expect(network.faults.filter((f) => f.subject === 4)).toEqual([{ subject: 4, ids: [circuitId] }]);
});

test("idle circuits are put to their controller", async () => {
  await network.link(a, b);
  const hoster = await client(b, "bob");
  await hoster.bind(network.session("web", "Bind"));
  await pair(await client(a, "alice"), hoster);
  const idle: [string, string[]][] = [];
  a.forwarder.onIdle((circuits) => idle.push([circuits.controllerId, [...circuits.idle.keys()]]));
  a.forwarder.scanIdle(performance.now() + 1_000);
  expect(idle).toEqual([]);
  a.forwarder.scanIdle(performance.now() + 61_000);
  expect(idle).toEqual([["ctrl", [...network.circuits.keys()]]]);
});
