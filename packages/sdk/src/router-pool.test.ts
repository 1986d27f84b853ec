import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { EdgeHeader, EdgeType, Headers, silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EdgeConnection } from "./circuit/connection.ts";
import { dialThrough } from "./dial.ts";
import type { EdgeChannel } from "./edge-channel.ts";
import { Binding } from "./hosting/binding.ts";
import { type RouterAddress, routerAddresses } from "./router-address.ts";
import { RouterPool } from "./router-pool.ts";
import { TinyRouter } from "./testing/tiny-router.ts";

const never = new AbortController().signal;
let near: TinyRouter;
let far: TinyRouter;
let routers: RouterPool;
/** Takes connections and closes them, as something that is no router. */
let broken: Server;
let attempts = 0;
let refusals = 0;

beforeEach(async () => {
  [near, far] = await Promise.all([TinyRouter.start(), TinyRouter.start({ grouped: true })]);
  // Each router has an authority of its own: the identity trusts both.
  const login = await near.login("app", [far]);
  refusals = 0;
  routers = new RouterPool({ login, log: silentLogger, onRefused: () => refusals++ });
  attempts = 0;
  broken = createServer((socket) => {
    attempts++;
    socket.destroy();
  }).listen(0, "127.0.0.1");
  await once(broken, "listening");
});

/** With so many connections to each router. */
async function grouped(connections: number): Promise<RouterPool> {
  const login = await near.login("app", [far]);
  return new RouterPool({ login, log: silentLogger, onRefused: () => {}, connections });
}

afterEach(async () => {
  await routers.close();
  broken.close();
  await Promise.all([near.close(), far.close()]);
});

const brokenRouter = (): RouterAddress => ({
  name: "broken",
  address: `tls:127.0.0.1:${(broken.address() as AddressInfo).port}`,
});
const at = (name: string, router: TinyRouter): RouterAddress => ({ name, address: router.address });
const connected = (router: RouterAddress): Promise<EdgeChannel> => routers.connect(router, never);

/** Makes a connection one that was of use. */
async function hostAt(edge: EdgeChannel): Promise<void> {
  const hosting = { service: "svc", sessionToken: "svc", listenerId: "l", identityName: "host" };
  await new Promise<void>((established) => new Binding(edge, hosting, { established, ended() {}, dialled() {} }));
}

it("takes the connected router with the shortest round trip", async () => {
  const list = [at("far", far), at("near", near)];
  const [toFar, toNear] = await Promise.all(list.map(connected));
  await Promise.all([toFar?.probe(), toNear?.probe()]);
  Object.assign(toFar ?? {}, { latencyMs: 80 });
  Object.assign(toNear ?? {}, { latencyMs: 3 });
  expect(await routers.best(list, never)).toBe(toNear);
  Object.assign(toNear ?? {}, { latencyMs: 90 });
  expect(await routers.best(list, never)).toBe(toFar);
});

it("shares one connection per address among all who ask", async () => {
  const edges = await Promise.all(Array.from({ length: 20 }, () => routers.best([at("near", near)], never)));
  expect(new Set(edges).size).toBe(1);
});

it("tells every router the next token of the session", async () => {
  const addresses = [at("near", near), at("far", far)];
  const edges = await Promise.all(addresses.map((router) => routers.connect(router, never)));
  const told = Promise.all([near, far].map((router) => router.asked(EdgeType.UpdateToken)));
  routers.updateToken("next");
  await told;
  expect([near, far].map((router) => router.messages(EdgeType.UpdateToken)[0]?.body.toString())).toEqual([
    "next",
    "next",
  ]);
  expect(await Promise.all(addresses.map((router) => routers.connect(router, never)))).toEqual(edges);
});

it("connects anew to a router that does not take the next token, and leaves alone what is open there", async () => {
  near.tokenRefusal = "code: 2, message: token is invalid";
  const before = await routers.connect(at("near", near), never);
  const anew = new Promise<RouterAddress>((resolve) => routers.onConnected(resolve));
  routers.updateToken("next");
  await anew;
  const after = await routers.connect(at("near", near), never);
  expect([after === before, before.isClosed, before.isPaused]).toEqual([false, false, true]);
  await expect(before.updateToken("next")).rejects.toMatchObject({
    code: "TOKEN_REFUSED",
    message: expect.stringContaining("token is invalid"),
  });
});

it("leaves a router alone that failed, as long as another one is connected", async () => {
  const list = [brokenRouter(), at("near", near)];
  for (let dials = 0; dials < 30; dials++) await routers.best(list, never);
  expect(attempts).toBe(1);
});

it("tries every router when none is connected, and says why each failed", async () => {
  const list = [brokenRouter()];
  for (let dials = 0; dials < 2; dials++) {
    await expect(routers.best(list, never)).rejects.toMatchObject({
      code: "ROUTERS_UNREACHABLE",
      message: expect.stringContaining(brokenRouter().address),
    });
  }
  expect(attempts).toBe(2);
  await expect(routers.best([], never)).rejects.toMatchObject({ code: "NO_ROUTERS" });
});

it("tells when a router closes a connection at once, and connects again when it is asked", async () => {
  const router = at("near", near);
  const first = await connected(router);
  near.dropAll();
  await first.channel.closed;
  expect(refusals).toBe(1);
  expect(await connected(router)).not.toBe(first);
});

it("connects again by itself to a router that was of use, and tells who follows", async () => {
  const router = at("near", near);
  const told: RouterAddress[] = [];
  const unfollow = routers.onConnected((each) => told.push(each));
  const first = await connected(router);
  await hostAt(first);
  expect(routers.isInMotion).toBe(false);
  near.dropAll();
  await expect.poll(() => told, { timeout: 20_000 }).toEqual([router, router]);
  expect([refusals, routers.isInMotion]).toEqual([0, true]);
  expect(await connected(router)).not.toBe(first);
  unfollow();
}, 30_000);

it("leaves a router that was closed here closed", async () => {
  const edge = await connected(at("near", near));
  await hostAt(edge);
  let connections = 0;
  routers.onConnected(() => connections++);
  routers.closeAll();
  await edge.channel.closed;
  expect([routers.isInMotion, connections]).toEqual([false, 0]);
});

it("avoids a connected router as long as another one is connected", async () => {
  const list = [at("near", near), at("far", far)];
  const [toNear, toFar] = (await Promise.all(list.map(connected))) as [EdgeChannel, EdgeChannel];
  Object.assign(toNear, { latencyMs: 0 });
  expect(await routers.best(list, never, new Set([toNear]))).toBe(toFar);
  expect(await routers.best(list, never, new Set([toNear, toFar]))).toBe(toNear);
});

it("gives up waiting when it is told to, and leaves no unhandled rejection", async () => {
  const given = new Error("given up");
  await expect(routers.best([brokenRouter()], AbortSignal.abort(given))).rejects.toBe(given);
  await expect(routers.connect(brokenRouter(), AbortSignal.abort(given))).rejects.toBe(given);
});

it("reads the tls addresses that the controller lists", () => {
  const list = [
    { name: "r1", supportedProtocols: { tls: "tls://r1.example:3022", wss: "wss://r1.example:443" } },
    { name: "r2" },
  ];
  expect(routerAddresses(list)).toEqual([{ name: "r1", address: "tls:r1.example:3022" }]);
});

it("gives up a router that is silent when it is asked, and the next one is taken", async () => {
  const list = [at("near", near), at("far", far)];
  const [toNear] = await Promise.all(list.map(connected));
  // Behind the measurement that every connection begins with, which would be the latency otherwise.
  await toNear?.probe();
  Object.assign(toNear ?? {}, { latencyMs: 0 });
  near.freeze();
  expect(await routers.best(list, never)).toBe(toNear);
  // What a dial does that waits for its answer.
  await toNear?.probe(100);
  expect(toNear?.isClosed).toBe(true);
  expect((await routers.best(list, never)).router).toContain("far");
});

it("does not give up a router whose words waited to be read while this process stood still", async () => {
  const edge = await connected(at("near", near));
  await edge.probe();
  near.freeze();
  const probed = edge.probe(500);
  near.send(0, EdgeType.StateClosed, new Headers().setU32(EdgeHeader.ConnId, 77));
  // By then it is written.
  await new Promise(setImmediate);
  const until = performance.now() + 600;
  while (performance.now() < until);
  await probed;
  expect(edge.isClosed).toBe(false);
});

it("fails a dial through a silent router as lost, long before the dial's own time is over", async () => {
  const edge = await connected(at("near", near));
  near.freeze();
  const dial = dialThrough(edge, { service: "svc", by: { sessionToken: "svc" }, callerId: "app" }, never);
  await expect(dial).rejects.toMatchObject({ failure: "lost", code: "ROUTER_LOST" });
}, 60_000);

it("keeps several connections to a router that takes them, and one to others", async () => {
  const several = await grouped(3);
  try {
    const [toNear, toFar] = await Promise.all(
      [at("near", near), at("far", far)].map((router) => several.connect(router, never)),
    );
    await expect.poll(() => toFar?.channel.underlays.length, { timeout: 20_000 }).toBe(3);
    expect(toNear?.channel.underlays.length).toBe(1);
    toFar?.channel.underlays[1]?.close();
    expect(toFar?.channel.underlays.length).toBe(2);
    await expect.poll(() => toFar?.channel.underlays.length, { timeout: 20_000 }).toBe(3);
    expect(toFar?.isClosed).toBe(false);
  } finally {
    await several.close();
  }
}, 60_000);

it("replaces one of several connections on which nothing is answered, and leaves the others alone", async () => {
  const several = await grouped(3);
  try {
    const edge = await several.connect(at("far", far), never);
    await expect.poll(() => edge.channel.underlays.length, { timeout: 20_000 }).toBe(3);
    const [one, two, three] = edge.channel.underlays;
    far.freeze(1);
    await edge.probe(3_000);
    expect(edge.channel.underlays).toEqual([one, three]);
    expect(two?.isClosed).toBe(true);
    await expect.poll(() => edge.channel.underlays.length, { timeout: 20_000 }).toBe(3);
    await edge.probe(5_000);
    expect(edge.channel.underlays.slice(0, 2)).toEqual([one, three]);
    expect(edge.channel.underlays.length).toBe(3);
    // Nothing is answered at all: that is the router.
    far.freeze();
    await edge.probe(200);
    expect(edge.isClosed).toBe(true);
  } finally {
    await several.close();
  }
}, 60_000);

it("carries circuits over several connections, and over those that are left when one is cut", async () => {
  far.flowControl = true;
  const [hosts, clients] = [await grouped(3), await grouped(3)];
  try {
    const [host, client] = await Promise.all([hosts, clients].map((r) => r.connect(at("far", far), never)));
    if (host === undefined || client === undefined) throw new Error("no connection");
    await expect.poll(() => client.channel.underlays.length, { timeout: 20_000 }).toBe(3);
    await new Promise<void>((resolve) => {
      new Binding(
        host,
        { service: "svc", sessionToken: "svc", listenerId: "l", identityName: "host" },
        {
          established: resolve,
          ended() {},
          dialled: async (dial) => {
            const connection = new EdgeConnection(await dial.accept(), { allowHalfOpen: true });
            connection.pipe(connection);
          },
        },
      );
    });
    const sockets = await Promise.all(
      Array.from({ length: 6 }, async () => {
        const request = { service: "svc", by: { sessionToken: "svc" }, callerId: "app" };
        return new EdgeConnection(await dialThrough(client, request, never), { allowHalfOpen: true });
      }),
    );
    const bytes = randomBytes(2 * 1024 * 1024);
    const echoes = sockets.map(async (socket) => {
      socket.end(bytes);
      const chunks: Buffer[] = [];
      for await (const chunk of socket) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks).equals(bytes);
    });
    client.channel.underlays[2]?.close();
    expect(await Promise.all(echoes)).toEqual(sockets.map(() => true));
  } finally {
    await clients.close();
    await hosts.close();
  }
}, 60_000);

describe("closing, with a connection that both ends have ended", () => {
  /** The end that ended first, which closes the circuit when it has read everything. */
  let hosted: EdgeConnection;
  let edge: EdgeChannel;

  beforeEach(async () => {
    edge = await connected(at("near", near));
    const host = await near.connect("host");
    const accepted = Promise.withResolvers<EdgeConnection>();
    await new Promise<void>((resolve) => {
      const hosting = { service: "svc", sessionToken: "svc", listenerId: "l", identityName: "host" };
      new Binding(host, hosting, {
        established: resolve,
        ended() {},
        dialled: async (dial) => accepted.resolve(new EdgeConnection(await dial.accept(), { allowHalfOpen: true })),
      });
    });
    const request = { service: "svc", by: { sessionToken: "svc" }, callerId: "app" };
    const socket = new EdgeConnection(await dialThrough(edge, request, never), { allowHalfOpen: true });
    hosted = await accepted.promise;
    hosted.on("error", () => {}).end();
    await once(socket.resume(), "end");
    socket.end("last words");
    await once(socket, "close");
  });

  it("waits for the other end, which may not have the last bytes yet", async () => {
    const closed = routers.close({ drainMs: 20_000 });
    await new Promise(setImmediate);
    expect(edge.isClosed).toBe(false);
    const read: Buffer[] = [];
    hosted.on("data", (bytes: Buffer) => read.push(bytes));
    await closed;
    expect([Buffer.concat(read).toString(), near.messages(EdgeType.StateClosed).length]).toEqual(["last words", 1]);
  });

  it("waits a moment only, not until the circuit is given up", async () => {
    await routers.close();
    expect([edge.isClosed, near.messages(EdgeType.StateClosed).length]).toEqual([true, 0]);
  });

  it("ends when the connection to the router does", async () => {
    let isClosed = false;
    const closed = routers.close().then(() => {
      isClosed = true;
    });
    near.dropAll();
    await edge.channel.closed;
    await new Promise(setImmediate);
    expect(isClosed).toBe(true);
    await closed;
  });
});
