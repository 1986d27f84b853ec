import { createHash, randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Circuit } from "../forwarder/circuit.ts";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { type TestConnection, TestSdk } from "../testing/test-sdk.ts";

let network: TestNetwork;
let a: TestRouter;
let b: TestRouter;
let dialer: TestSdk;
let hoster: TestSdk;

beforeEach(async () => {
  network = await TestNetwork.create();
  a = await network.addRouter("rA");
  b = await network.addRouter("rB");
  await network.link(a, b);
  dialer = await TestSdk.connect(a.port.port, await network.client("alice"));
  hoster = await TestSdk.connect(b.port.port, await network.client("bob"), { alpn: false });
});

afterEach(async () => {
  dialer.close();
  hoster.close();
  await network.close();
});

/** A connected pair, dialing side first. */
async function pair(): Promise<[TestConnection, TestConnection]> {
  const accepted = Promise.withResolvers<TestConnection>();
  hoster.onConnection = (connection) => accepted.resolve(connection);
  const near = await dialer.connect(network.session("web", "Dial"));
  return [near, await accepted.promise];
}

async function host(service = "web"): Promise<number> {
  return hoster.bind(network.session(service, "Bind"));
}

/** Sends `bytes` random bytes in messages of `size` and says their hash. */
async function pump(from: TestConnection, bytes: number, size: number): Promise<string> {
  const hash = createHash("sha256");
  const block = randomBytes(size + 257);
  for (let sent = 0, n = 0; sent < bytes; sent += size, n++) {
    const body = block.subarray(n % 257, (n % 257) + Math.min(size, bytes - sent));
    hash.update(body);
    from.send(body);
    await from.drained();
  }
  return hash.digest("hex");
}

function hashing(to: TestConnection): () => string {
  const hash = createHash("sha256");
  to.onData = (buffer, start, end) => hash.update(buffer.subarray(start, end));
  return () => hash.digest("hex");
}

test("bytes cross two routers unchanged both ways, whatever their message size", async () => {
  await host();
  const [near, far] = await pair();
  const bytes = 6 * 1024 * 1024 + 17;
  const atFar = hashing(far);
  const atNear = hashing(near);
  const [up, down] = await Promise.all([pump(near, bytes, 16_296), pump(far, bytes, 3_001)]);
  await Promise.all([far.whenReceived(bytes), near.whenReceived(bytes)]);
  expect(atFar()).toBe(up);
  expect(atNear()).toBe(down);
});

test("one message is one message at the other end, with its flags and trace id", async () => {
  await host();
  const [near, far] = await pair();
  const bodies: string[] = [];
  const flags: number[] = [];
  far.onData = (buffer, start, end, f) => {
    bodies.push(buffer.toString("utf8", start, end));
    flags.push(f);
  };
  near.send(Buffer.from("one"), 0x8000_0006, randomBytes(16));
  near.send(Buffer.alloc(0));
  near.send(Buffer.from("two"));
  await far.whenReceived(6);
  expect(bodies).toEqual(["one", "", "two"]);
  expect(flags).toEqual([0x8000_0006, 0, 0]);
});

test("a half close leaves the other direction open", async () => {
  await host();
  const [near, far] = await pair();
  near.send(Buffer.from("last words"));
  near.finish();
  await far.whenFin();
  expect(far.received).toBe(10);
  far.send(Buffer.from("an answer"));
  far.finish();
  await near.whenFin();
  expect(near.received).toBe(9);
});

test("closing delivers everything sent before, then ends the other side and both routers forget the circuit", async () => {
  await host();
  const [near, far] = await pair();
  const sent = pump(near, 1024 * 1024, 10_000);
  await sent;
  near.close();
  const reason = await far.whenClosed();
  expect(reason).not.toBe("");
  expect(far.received).toBe(1024 * 1024);
  await expect.poll(() => network.faults.map((f) => f.subject).sort()).toEqual([0, 1]);
});

test("a circuit that has ended leads nowhere any more, as reports keep it for a while and would keep connections", async () => {
  await host();
  const [near, far] = await pair();
  near.send(Buffer.alloc(1_000));
  await far.whenReceived(1_000);
  // Its acknowledgement is due when the circuit ends.
  far.send(Buffer.alloc(1_000));
  await near.whenReceived(1_000);
  const ended: Circuit[] = [];
  a.forwarder.onRemoved((circuit) => ended.push(circuit));
  const leads = [...a.forwarder.circuits()].flatMap((circuit) => circuit.forwards);
  expect(leads.some(({ destination, output }) => destination?.kind === "link" && output !== undefined)).toBe(true);
  for (const id of a.forwarder.circuitIds()) a.forwarder.unroute(id, true);
  expect(ended.length).toBe(1);
  expect(leads.map(({ destination, output }) => [destination?.kind, output?.isFull])).toEqual(
    leads.map(() => [undefined, undefined]),
  );
});

test("fifty circuits at once", async () => {
  await host();
  const far: TestConnection[] = [];
  hoster.onConnection = (connection) => {
    far.push(connection);
    connection.onData = (buffer, start, end) => connection.send(Buffer.from(buffer.subarray(start, end)));
  };
  const token = network.session("web", "Dial");
  const near = await Promise.all(Array.from({ length: 50 }, () => dialer.connect(token)));
  const results = await Promise.all(
    near.map(async (connection) => {
      const got = hashing(connection);
      const sent = await pump(connection, 200_000, 4_000);
      await connection.whenReceived(200_000);
      return got() === sent;
    }),
  );
  expect(results.every(Boolean)).toBe(true);
  expect(far.length).toBe(50);
});

test("both ends on one router need no link", async () => {
  const local = await TestSdk.connect(b.port.port, await network.client("carol"));
  await host();
  const accepted = Promise.withResolvers<TestConnection>();
  hoster.onConnection = (connection) => accepted.resolve(connection);
  const near = await local.connect(network.session("web", "Dial"));
  const far = await accepted.promise;
  const got = hashing(far);
  const sent = await pump(near, 3_000_000, 16_000);
  await far.whenReceived(3_000_000);
  expect(got()).toBe(sent);
  near.close();
  await far.whenClosed();
  local.close();
});
