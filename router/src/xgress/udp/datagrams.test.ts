import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { RouteErrorCode, silentLogger, xgressDefaults } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it } from "vitest";
import { TestNetwork, type TestRouter } from "../../testing/test-network.ts";
import type { PlainCircuit } from "../plain-client.ts";
import { DatagramListener, type DatagramListenerOptions } from "./datagram-listener.ts";
import { UdpEgress } from "./udp-egress.ts";

let network: TestNetwork;
let a: TestRouter;
let b: TestRouter;
let echo: Socket;
/** Who sent to the service. */
let senders: Set<number>;
const sockets: Socket[] = [];
const listeners: DatagramListener[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  [a, b] = [await network.addRouter("rA"), await network.addRouter("rB")];
  await network.link(a, b);
  b.forwarder.registerEgress("transport_udp", new UdpEgress(b.forwarder, { xgress: xgressDefaults }));
  senders = new Set();
  echo = await bound();
  echo.on("message", (bytes, from) => {
    senders.add(from.port);
    echo.send(bytes, from.port, from.address);
  });
});

afterEach(async () => {
  for (const listener of listeners.splice(0)) listener.close();
  for (const socket of sockets.splice(0)) socket.close();
  await network.close();
});

async function bound(): Promise<Socket> {
  const socket = createSocket("udp4").bind(0, "127.0.0.1");
  sockets.push(socket);
  await once(socket, "listening");
  return socket;
}

/** A `proxy_udp` at rA whose service is the echo behind rB. */
async function listen(more: Partial<DatagramListenerOptions> = {}): Promise<DatagramListener> {
  network.addTerminator({
    ...{ service: "echo", routerId: "rB", binding: "transport_udp", address: `udp:127.0.0.1:${echo.address().port}` },
  });
  const listener = await DatagramListener.listen({
    ...{ forwarder: a.forwarder, xgress: xgressDefaults, binding: "proxy_udp", service: "echo", log: silentLogger },
    ...{ host: "127.0.0.1", port: 0, family: 4 },
    createCircuit: circuit,
    release: () => {},
    ...more,
  });
  listeners.push(listener);
  return listener;
}

function circuit(service: string): Promise<PlainCircuit> {
  const sessionToken = network.session(service, "Dial");
  return network.createCircuit("rA", {
    sessionToken,
    apiSessionToken: "",
    fingerprints: [],
    timeoutMs: 30_000,
    peerData: new Map(),
  });
}

async function ask(socket: Socket, port: number, bytes: Buffer): Promise<Buffer> {
  const answer = once(socket, "message");
  socket.send(bytes, port, "127.0.0.1");
  return (await answer)[0] as Buffer;
}

it.runIf(process.platform === "linux")(
  "targets are reached from the address that `bind` of the dialer names",
  async () => {
    const egress = new UdpEgress(b.forwarder, { xgress: xgressDefaults, localAddress: "127.0.0.9" });
    b.forwarder.registerEgress("bound", egress);
    network.addTerminator({
      ...{ service: "bound", routerId: "rB", binding: "bound", address: `udp:127.0.0.1:${echo.address().port}` },
    });
    const from = once(echo, "message").then(([, sender]: { address: string }[]) => sender?.address);
    const { port } = await listen({ service: "bound" });
    const client = await bound();
    client.send(Buffer.from("x"), port, "127.0.0.1");
    expect(await from).toBe("127.0.0.9");
  },
);

it("each sender has a circuit and a socket at the service of its own; a datagram stays one, up to the largest", async () => {
  const { port } = await listen();
  const [one, two] = [await bound(), await bound()];
  for (const size of [1, 1_400, 60_000, 65_507]) {
    const sent = Buffer.alloc(size, size);
    expect((await ask(one, port, sent)).equals(sent)).toBe(true);
    expect((await ask(two, port, sent)).equals(sent)).toBe(true);
  }
  expect(senders.size).toBe(2);
  expect(network.circuits.size).toBe(2);
  // An empty datagram is no payload; the next one is not disturbed by it.
  one.send("", port, "127.0.0.1");
  expect((await ask(one, port, Buffer.from("next"))).toString()).toBe("next");
});

it("a session without traffic ends, with its circuit and the socket at the service; others go on", async () => {
  let clock = 0;
  const listener = await listen({ now: () => clock, times: { idleMs: 60_000, scanMs: 5 } });
  const [silent, busy] = [await bound(), await bound()];
  await ask(silent, listener.port, Buffer.from("a"));
  clock = 59_999;
  await ask(busy, listener.port, Buffer.from("b"));
  expect(listener.sessions).toBe(2);
  clock = 60_000;
  await expect.poll(() => listener.sessions).toBe(1);
  // Both ends of the silent circuit tell its owner.
  await expect.poll(() => network.faults.length).toBe(2);
  await ask(busy, listener.port, Buffer.from("c"));
  expect(network.circuits.size).toBe(2);
  // It may come back, as a new client.
  await ask(silent, listener.port, Buffer.from("d"));
  expect(network.circuits.size).toBe(3);
  // Its socket at the service may have been given the port of the one that ended.
  expect(senders.size).toBeGreaterThanOrEqual(2);
});

it("what comes before the circuit waits, ten datagrams of it; the others are lost", async () => {
  const made = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const { port } = await listen({
    createCircuit: async (service) => {
      asked.resolve();
      await made.promise;
      return await circuit(service);
    },
  });
  const client = await bound();
  const heard: string[] = [];
  client.on("message", (bytes) => heard.push(bytes.toString()));
  for (let i = 0; i < 15; i++) client.send(String(i), port, "127.0.0.1");
  await asked.promise;
  // Datagrams to one socket keep their order on this machine: when this one is a session, the 15 have been read.
  const last = await bound();
  last.send("last", port, "127.0.0.1");
  await expect.poll(() => listeners[0]?.sessions).toBe(2);
  made.resolve();
  await expect.poll(() => heard.length).toBe(10);
  expect((await ask(client, port, Buffer.from("after"))).toString()).toBe("after");
  expect(heard).toEqual(["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "after"]);
});

it("a circuit that comes after its client has left is given back", async () => {
  const asked = Promise.withResolvers<void>();
  const made = Promise.withResolvers<PlainCircuit>();
  const released: PlainCircuit[] = [];
  const listener = await listen({
    createCircuit: () => {
      asked.resolve();
      return made.promise;
    },
    release: (each) => released.push(each),
  });
  (await bound()).send("x", listener.port, "127.0.0.1");
  await asked.promise;
  listener.close();
  const nobodys = { circuitId: "c", address: "x", controllerId: "ctrl" };
  made.resolve(nobodys);
  await expect.poll(() => released).toEqual([nobodys]);
});

it("a circuit that the network takes down ends its session", async () => {
  const listener = await listen();
  await ask(await bound(), listener.port, Buffer.from("a"));
  for (const id of network.circuits.keys()) network.unroute(id, true);
  await expect.poll(() => listener.sessions).toBe(0);
});

it("a service's address is a protocol with its family, a host and a port", async () => {
  let attempt = 0;
  const route = async (destination: string) =>
    await b.forwarder.route(
      {
        circuitId: `c${attempt}`,
        attempt: 0,
        egress: { binding: "transport_udp", address: `x${attempt++}`, destination, peerData: {} },
        forwards: [{ srcAddress: "l", dstAddress: `x${attempt - 1}`, dstType: 1 }],
        timeout: 5_000_000_000n,
        tags: {},
      },
      "ctrl",
    );
  const { port } = echo.address();
  const named = await route(`udp4:localhost:${port}`);
  expect(named.ok).toBe(true);
  expect([...named.peerData.values()].map(String)).toContain(`127.0.0.1:${port}`);
  expect(await route("udp4:[::1]:53")).toMatchObject({ ok: false, errorCode: RouteErrorCode.DialTimedOut });
  expect((await route("udp4:[::1]:53")).error).toContain("no IPv4 address");
  expect(await route(`tcp:127.0.0.1:${port}`)).toMatchObject({ errorCode: RouteErrorCode.MisconfiguredTerminator });
  expect(await route("udp:127.0.0.1:0")).toMatchObject({ errorCode: RouteErrorCode.MisconfiguredTerminator });
  expect(await route("udp:no.such.name.invalid:53")).toMatchObject({ ok: false });
});
