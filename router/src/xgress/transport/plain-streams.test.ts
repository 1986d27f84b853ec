import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { connect as connectTls, createServer as createTlsServer } from "node:tls";
import { type Identity, lineBounds, RouteErrorCode, silentLogger, TlsPort, xgressDefaults } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { RecordingLogger } from "@sallyport/wire/testing/recording-logger";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestNetwork, type TestRouter } from "../../testing/test-network.ts";
import type { PlainCircuit } from "../plain-client.ts";
import { StreamListener, type StreamListenerOptions } from "./stream-listener.ts";
import { TransportEgress } from "./transport-egress.ts";

const MIB = 1024 * 1024;

let network: TestNetwork;
let a: TestRouter;
let b: TestRouter;
/** What the egress of rB trusts. */
let trusting: Identity;
const servers: Server[] = [];
const listeners: StreamListener[] = [];
const clients: Socket[] = [];

beforeEach(async () => {
  network = await TestNetwork.create();
  [a, b] = [await network.addRouter("rA"), await network.addRouter("rB")];
  await network.link(a, b);
  trusting = b.identity;
  const options = { xgress: xgressDefaults, connectTimeoutMs: 0, mtu: 0, identity: () => trusting };
  b.forwarder.registerEgress("transport", new TransportEgress(b.forwarder, options));
});

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  for (const listener of listeners.splice(0)) listener.close();
  for (const server of servers.splice(0)) server.close();
  await network.close();
});

async function listening(server: Server): Promise<number> {
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

const echo = (socket: Socket): void => void socket.on("error", () => socket.destroy()).pipe(socket);

function serve(address: string): void {
  network.addTerminator({ service: "svc", routerId: "rB", binding: "transport", address });
}

async function circuit(service: string): Promise<PlainCircuit> {
  if (service !== "svc") throw new Error(`service ${service} is not known`);
  const sessionToken = network.session(service, "Dial");
  return await network.createCircuit("rA", {
    ...{ sessionToken, apiSessionToken: "", fingerprints: [], timeoutMs: 30_000, peerData: new Map() },
  });
}

function listener(more: Partial<StreamListenerOptions> = {}): StreamListener {
  const made = new StreamListener({
    ...{ forwarder: a.forwarder, xgress: xgressDefaults, binding: "transport", mtu: 0, log: silentLogger },
    createCircuit: circuit,
    release: () => {},
    ...more,
  });
  listeners.push(made);
  return made;
}

/** A client of a listener on TCP. */
async function client(of: StreamListener, localAddress?: string): Promise<Socket> {
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => of.accept(socket));
  const socket = connect({ port: await listening(server), host: "127.0.0.1", allowHalfOpen: true, localAddress });
  clients.push(socket);
  await once(socket, "connect");
  return socket;
}

/** Everything that comes until the end. */
async function whole(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = [];
  socket.on("data", (chunk: Buffer) => chunks.push(chunk));
  await once(socket, "end");
  return Buffer.concat(chunks);
}

/** Sends, half closes, and expects the same back. */
async function echoes(socket: Socket, length: number): Promise<void> {
  const bytes = randomBytes(length);
  const back = whole(socket);
  socket.end(bytes);
  const digest = (buffer: Buffer) => createHash("sha256").update(buffer).digest("hex");
  expect(digest(await back)).toBe(digest(bytes));
}

async function line(socket: Socket): Promise<Record<string, unknown>> {
  let text = "";
  while (!text.endsWith("\n")) text += ((await once(socket, "data")) as Buffer[])[0]?.toString();
  return JSON.parse(text);
}

test("a request of JSON, with data right behind it; the answer names the circuit, then bytes flow and half close works", async () => {
  serve(`tcp:127.0.0.1:${await listening(createServer({ allowHalfOpen: true }, echo))}`);
  const socket = await client(listener());
  const back = whole(socket);
  socket.write('{"id":"me","sv');
  socket.write('cId":"svc"}\nearly ');
  socket.end("and late");
  const [answer = "", ...rest] = (await back).toString().split("\n");
  expect(JSON.parse(answer)).toEqual({ scc: true, msg: "", circuitId: [...network.circuits.keys()][0] });
  expect(rest.join("\n")).toBe("early and late");
  await expect.poll(() => network.faults.length).toBe(2);
});

test.each([
  ["hello\n", "expected a line of JSON"],
  ["{}\n", "expected a line of JSON"],
  ["[1]\n", "expected a line of JSON"],
  ['{"svcId":""}\n', "expected a line of JSON"],
  ['{"svcId":7}\n', "expected a line of JSON"],
  ["\n", "expected a line of JSON"],
  [`${"x".repeat(5_000)}\n`, "at most 4096 bytes"],
  ["x".repeat(5_000), "at most 4096 bytes"],
  ['{"svcId":"other"}\n', "service other is not known"],
])("a request is answered with why not, and the connection ends (%#)", async (request, reason) => {
  const socket = await client(listener());
  const answer = line(socket);
  socket.write(request);
  const { scc, msg } = await answer;
  expect(scc).toBe(false);
  expect(msg).toContain(reason);
  await once(socket, "end");
});

test("a client that asks nothing in time is told so; one that leaves costs nothing", async () => {
  const asking = listener({ requestTimeoutMs: 30 });
  expect(await line(await client(asking))).toMatchObject({ scc: false, msg: "no request within 30 ms" });
  const leaving = listener();
  (await client(leaving)).end();
  await expect.poll(() => leaving.connections).toBe(0);
});

test("a circuit whose client has left meanwhile is given back", async () => {
  const made = Promise.withResolvers<PlainCircuit>();
  const asked = Promise.withResolvers<void>();
  const released: string[] = [];
  const proxy = listener({
    ...{ binding: "proxy", service: "svc" },
    createCircuit: () => {
      asked.resolve();
      return made.promise;
    },
    release: ({ circuitId }) => released.push(circuitId),
  });
  await client(proxy);
  await asked.promise;
  proxy.close();
  made.resolve({ circuitId: "c", address: "x", controllerId: "ctrl" });
  await expect.poll(() => released).toEqual(["c"]);
});

test("a listener on TLS serves clients that offer no protocol", async () => {
  serve(`tcp:127.0.0.1:${await listening(createServer({ allowHalfOpen: true }, echo))}`);
  const proxy = listener({ binding: "proxy", service: "svc" });
  const tlsPort = await TlsPort.listen({ host: "127.0.0.1", port: 0, identity: a.identity });
  tlsPort.register({
    ...{ name: "proxy", protocols: [], acceptsNoAlpn: true },
    onSocket: (socket) => {
      socket.pause();
      socket.allowHalfOpen = true;
      proxy.accept(socket);
    },
  });
  const { identity } = await network.client("alice");
  const secureContext = identity.clientContext();
  const socket = connectTls({ port: tlsPort.port, host: "localhost", secureContext, allowHalfOpen: true } as object);
  clients.push(socket);
  await once(socket, "secureConnect");
  await echoes(socket, 4 * MIB);
  await tlsPort.close();
});

test("a TLS service is dialled when its certificate is of this network and its name, and only then", async () => {
  const tlsServer = async (identity: Identity): Promise<number> => {
    const { certPem: cert, keyPem: key } = identity;
    return await listening(createTlsServer({ cert, key, allowHalfOpen: true }, echo));
  };
  const good = await tlsServer(await network.authority.identity("service"));
  serve(`tls:localhost:${good}`);
  await echoes(await client(listener({ binding: "proxy", service: "svc" })), 4 * MIB);

  const route = async (destination: string) =>
    await b.forwarder.route(
      {
        ...{ circuitId: destination, attempt: 0, timeout: 5_000_000_000n, tags: {} },
        egress: { binding: "transport", address: `x-${destination}`, destination, peerData: {} },
        forwards: [{ srcAddress: "l", dstAddress: `x-${destination}`, dstType: 1 }],
      },
      "ctrl",
    );
  const elsewhere = await network.authority.identity("service", { dns: ["elsewhere"], ip: [] });
  const stranger = await (await TestAuthority.create("Stranger")).identity("service");
  const plain = await listening(createServer((socket) => void socket.on("error", () => {}).end("no TLS here")));
  for (const port of [await tlsServer(elsewhere), await tlsServer(stranger), plain]) {
    const outcome = await route(`tls:localhost:${port}`);
    expect(outcome).toMatchObject({ ok: false, errorCode: RouteErrorCode.DialTimedOut });
    expect(outcome.error).toContain(`connecting to tls:localhost:${port} failed`);
  }
});

test("clients that get no circuit, over and over, leave a few lines in the log", async () => {
  const log = new RecordingLogger();
  const made = listener({ binding: "proxy", service: "no such", log });
  for (let i = 0; i < 12; i++) {
    const socket = await client(made);
    await once(socket.on("error", () => {}).resume(), "end");
  }
  const lines = log.entries.filter(({ level }) => level !== "debug");
  expect(lines.map(({ msg }) => msg)).toEqual(Array(lineBounds.perReason).fill("a client got no circuit"));
});

test("clients that send no request make room for others, the oldest first", async () => {
  serve(`tcp:127.0.0.1:${await listening(createServer(echo))}`);
  const waiting = listener({ maxWaiting: 4 });
  const other = await client(waiting, "127.0.0.2");
  const silent = [await client(waiting), await client(waiting)];
  const ended = once(silent[0]?.resume() as Socket, "end");
  const next = await client(waiting);
  next.write('{"id":"me","svcId":"svc"}\nhello');
  const [answer] = await once(next, "data");
  expect(String(answer)).toContain('"scc":true');
  await ended;
  for (const socket of [other, silent[1]]) expect(socket?.readyState).toBe("open");
});
