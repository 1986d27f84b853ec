import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { EdgeHeader, EdgeType, XgressFlag, XgressHeader, XgressType } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { loadSodium } from "../crypto/load-sodium.ts";
import { dialThrough } from "../dial.ts";
import type { EdgeChannel } from "../edge-channel.ts";
import { Binding } from "../hosting/binding.ts";
import type { IncomingDial } from "../hosting/incoming-dial.ts";
import { everyOrder, TinyRouter } from "../testing/tiny-router.ts";
import { EdgeConnection } from "./connection.ts";
import type { MessageConnection } from "./message-connection.ts";

const MiB = 1024 * 1024;
const never = new AbortController().signal;

let router: TinyRouter;
let client: EdgeChannel;
let host: EdgeChannel;

beforeEach(async () => {
  router = await TinyRouter.start();
  router.flowControl = true;
  client = await router.connect("client");
  host = await router.connect("host");
});

afterEach(() => router.close());

async function serve(onDial: (dial: IncomingDial) => void, o: { encrypted?: boolean } = {}): Promise<void> {
  const sodium = o.encrypted === false ? undefined : await loadSodium();
  const crypto = sodium === undefined ? undefined : { sodium, keys: sodium.createKeyPair() };
  await new Promise<void>((resolve, reject) => {
    new Binding(
      host,
      { service: "svc", sessionToken: "svc", listenerId: "listener", identityName: "host", crypto },
      { established: resolve, ended: (text) => reject(new Error(text)), dialled: onDial },
    );
  });
}

/** Serves with streams. */
async function serveStreams(
  take: (connection: EdgeConnection) => void,
  o: { encrypted?: boolean } = {},
): Promise<void> {
  await serve(async (dial) => {
    const connection = new EdgeConnection(await dial.accept(), { allowHalfOpen: true });
    take(connection.on("error", () => {}));
  }, o);
}

async function connect(o: { encrypted?: boolean; datagrams?: boolean } = {}): Promise<MessageConnection> {
  const sodium = o.encrypted === false ? undefined : await loadSodium();
  const request = { service: "svc", by: { sessionToken: "svc" }, callerId: "alice", sodium, datagrams: o.datagrams };
  return await dialThrough(client, request, never);
}

async function dial(o: { encrypted?: boolean } = {}): Promise<EdgeConnection> {
  return new EdgeConnection(await connect(o), { allowHalfOpen: true }).on("error", () => {});
}

async function hashOf(connection: EdgeConnection): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of connection.iterator({ destroyOnReturn: false })) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

const sha256 = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

test("nothing is lost when the router writes headers in any order", async () => {
  router.order = everyOrder();
  await serveStreams((connection) => connection.pipe(connection));
  const connection = await dial();
  const bytes = randomBytes(2 * MiB);
  const hash = hashOf(connection);
  connection.end(bytes);
  expect(await hash).toBe(sha256(bytes));
  const sent = router.messages(XgressType.Payload);
  const again = sent.filter(({ headers }) => ((headers.getU32(XgressHeader.Flags) ?? 0) & XgressFlag.Retransmit) !== 0);
  // A busy machine may repeat a few; a reader that drops some of the orders repeats that part of all payloads.
  expect(again.length).toBeLessThan(sent.length / 50);
});

test.each([true, false])("bytes both ways, each direction ended by itself (encrypted: %s)", async (encrypted) => {
  await serveStreams((connection) => connection.pipe(connection), { encrypted });
  const connection = await dial({ encrypted });
  const bytes = randomBytes(12 * MiB);
  const hash = hashOf(connection);
  connection.end(bytes);
  expect(await hash).toBe(sha256(bytes));
  expect(router.messages(XgressType.Payload).length).toBeGreaterThan(1_000);
});

test("a reader that stops costs its window only: other circuits of the same router connections go on", async () => {
  const bytes = randomBytes(24 * MiB);
  await serveStreams((connection) => {
    connection.once("data", (first) => {
      if (first.toString() === "much") connection.end(bytes);
      else connection.pipe(connection);
    });
  });
  const stuck = await dial();
  stuck.write("much");
  await once(stuck, "readable");
  const other = await dial();
  other.write("echo");
  const sent = randomBytes(2 * MiB);
  const hash = hashOf(other);
  other.end(sent);
  expect(await hash).toBe(sha256(sent));
  // What waits here is a window and the reader's own buffer, not what was written.
  expect(stuck.readableLength).toBeLessThan(MiB);
  expect(client.circuits.pool.lentBytes).toBeLessThan(16 * MiB);
  expect(host.isPaused || client.isPaused).toBe(false);
  expect(await hashOf(stuck)).toBe(sha256(bytes));
});

test("payloads and acknowledgements that are lost are sent again", async () => {
  let count = 0;
  let lost = 0;
  router.loses = () => {
    if (count++ % 17 !== 5) return false;
    lost++;
    return true;
  };
  await serveStreams((connection) => connection.pipe(connection));
  const connection = await dial();
  const bytes = randomBytes(2 * MiB);
  const hash = hashOf(connection);
  connection.end(bytes);
  expect(await hash).toBe(sha256(bytes));
  expect(lost).toBeGreaterThan(5);
});

test("what was written before a close still arrives; the router connection knows when it has", async () => {
  const received = Promise.withResolvers<string>();
  await serveStreams((connection) => received.resolve(hashOf(connection)));
  const connection = await dial();
  const bytes = randomBytes(3 * MiB);
  connection.write(bytes, () => connection.destroy());
  if (!connection.closed) await once(connection, "close");
  await client.drained(10_000);
  client.channel.close();
  expect(await received.promise).toBe(sha256(bytes));
});

test("when the network takes the circuit down, what has arrived can still be read, then it ends", async () => {
  await serveStreams((connection) => connection.end(Buffer.alloc(MiB, 7)));
  const messages = await connect();
  // The application does not read yet: all of it is held by the circuit.
  await expect.poll(() => client.circuits.counters.bytesIn).toBeGreaterThan(MiB);
  router.unroute(0);
  const connection = new EdgeConnection(messages, { allowHalfOpen: true });
  expect(await hashOf(connection)).toBe(sha256(Buffer.alloc(MiB, 7)));
  if (!connection.closed) await once(connection, "close");
  expect(connection.errored).toBeNull();
  expect(client.circuits.pool.lentBytes).toBe(0);
});

test.each([
  ["a FIN", (connection: EdgeConnection) => connection.end(Buffer.alloc(MiB, 7))],
  ["a close", (connection: EdgeConnection) => connection.write(Buffer.alloc(MiB, 7), () => connection.destroy())],
])("payloads that the end of the circuit overtakes, up to %s, are read, and no error", async (_what, say) => {
  await serveStreams(say);
  let count = 0;
  router.holds = (message) => message.contentType === XgressType.Payload && count++ > 10;
  const connection = await dial();
  const hash = hashOf(connection);
  connection.end();
  await expect.poll(() => client.circuits.counters.payloadsIn).toBeGreaterThan(5);
  await expect.poll(() => count).toBeGreaterThan(50);
  // Routers in the field put this ahead of what waits.
  router.unroute(0);
  router.release();
  expect(await hash).toBe(sha256(Buffer.alloc(MiB, 7)));
  if (!connection.closed) await once(connection, "close");
  expect(connection.errored).toBeNull();
  expect(client.circuits.pool.lentBytes).toBe(0);
});

test("payloads that the end of the circuit overtakes are read, also when this process stands still meanwhile", async () => {
  await serveStreams((connection) => connection.end(Buffer.alloc(MiB, 7)));
  let count = 0;
  router.holds = (message) => message.contentType === XgressType.Payload && count++ > 10;
  const connection = await dial();
  const hash = hashOf(connection);
  connection.end();
  await expect.poll(() => count).toBeGreaterThan(50);
  router.unroute(0);
  await client.probe();
  router.release();
  // By then they are on their way.
  await new Promise(setImmediate);
  const until = performance.now() + 1_100;
  while (performance.now() < until);
  expect(await hash).toBe(sha256(Buffer.alloc(MiB, 7)));
  if (!connection.closed) await once(connection, "close");
  expect(connection.errored).toBeNull();
});

test("a circuit that is taken down with a gap in its data is an error, never an end", async () => {
  const content = Buffer.alloc(MiB, 7);
  await serveStreams((connection) => connection.end(content));
  let count = 0;
  // Everything from here on is lost, the end included.
  router.loses = () => count++ > 40;
  const messages = await connect();
  await expect.poll(() => client.circuits.counters.payloadsIn).toBeGreaterThan(10);
  const connection = new EdgeConnection(messages, { allowHalfOpen: true });
  let ended = false;
  connection.on("end", () => {
    ended = true;
  });
  connection.resume();
  router.unroute(0);
  const [error] = await once(connection, "error");
  expect(error).toMatchObject({ code: "CONNECTION_CLOSED", message: expect.stringContaining("may be missing") });
  expect(ended).toBe(false);
  expect(client.circuits.pool.lentBytes).toBe(0);
});

test("the loss of the router is an error for who was not done", async () => {
  await serveStreams((connection) => connection.resume());
  const connection = await dial();
  connection.write("hello");
  router.dropAll();
  const [error] = await once(connection, "error");
  expect(error).toMatchObject({ code: "CONNECTION_CLOSED" });
  expect(client.circuits.pool.lentBytes).toBe(0);
});

test("a message that is refused comes again, once, after resume; nothing overtakes it", async () => {
  const accepted = Promise.withResolvers<MessageConnection>();
  await serve(async (incoming) => accepted.resolve(await incoming.accept()));
  const near = await connect();
  const far = await accepted.promise;
  const seen: string[] = [];
  let room = false;
  let ended = false;
  far.start({
    data: (buffer, start, end) => {
      if (!room) return false;
      seen.push(buffer.toString("utf8", start, end));
      return true;
    },
    endOfData: () => {
      ended = true;
    },
    writable() {},
    closed() {},
  });
  for (const text of ["one", "two", "three"]) near.write(Buffer.from(text));
  near.endWriting();
  await expect.poll(() => host.circuits.counters.payloadsIn).toBeGreaterThan(4);
  expect([seen, ended]).toEqual([[], false]);
  room = true;
  far.resume();
  await expect.poll(() => ended).toBe(true);
  expect(seen).toEqual(["one", "two", "three"]);
  near.close();
  far.close();
});

test("datagrams keep their boundaries, up to the largest of UDP and not beyond", async () => {
  const accepted = Promise.withResolvers<MessageConnection>();
  await serve(async (incoming) => accepted.resolve(await incoming.accept({ datagrams: true })));
  const near = await connect({ datagrams: true });
  const far = await accepted.promise;
  const sizes: number[] = [];
  far.start({
    data: (_buffer, start, end) => {
      sizes.push(end - start);
      return true;
    },
    endOfData() {},
    writable() {},
    closed() {},
  });
  for (const size of [1, 65_507, 2, 1_400]) near.write(Buffer.alloc(size));
  await expect.poll(() => sizes).toEqual([1, 65_507, 2, 1_400]);
  expect(() => near.write(Buffer.alloc(65_508))).toThrow(/at most 65507/);
  near.close();
  far.close();
});

test("a dial is answered by the application: refused with its text, or accepted when it likes", async () => {
  const dials: IncomingDial[] = [];
  await serve((incoming) => dials.push(incoming));
  const refused = connect();
  await expect.poll(() => dials.length).toBe(1);
  dials[0]?.reject("the target is down");
  await expect(refused).rejects.toThrow("the target is down");
  await expect(dials[0]?.accept()).rejects.toMatchObject({ code: "CONNECTION_CLOSED" });
  void connect().catch(() => {});
  await expect.poll(() => dials.length).toBe(2);
  host.channel.close();
  await expect.poll(() => dials[1]?.signal.aborted).toBe(true);
});

test.each([
  ["v1.6.16", false, true],
  ["v1.6.15", false, false],
  ["v1.6.15", true, true],
])("a router of %s (a group: %s) is asked to leave the flow control to the SDK: %s", async (version, grouped, asks) => {
  await router.close();
  router = await TinyRouter.start({ grouped, version: `${version}|0|2026-01-01 00:00:00|linux|amd64` });
  router.flowControl = true;
  host = await router.connect("host", grouped);
  client = await router.connect("client", grouped);
  await serveStreams((connection) => connection.pipe(connection));
  const connection = await dial();
  const bytes = randomBytes(MiB);
  const hash = hashOf(connection);
  connection.end(bytes);
  expect(await hash).toBe(sha256(bytes));
  expect(router.messages(XgressType.Payload).length > 0).toBe(asks);
  for (const type of [EdgeType.Connect, EdgeType.Bind]) {
    expect(router.messages(type)[0]?.headers.getBool(EdgeHeader.UseXgressToSdk)).toBe(asks);
  }
});
