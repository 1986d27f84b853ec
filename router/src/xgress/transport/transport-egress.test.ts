import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server, type Socket } from "node:net";
import { EdgeType, RouteErrorCode, xgressDefaults } from "@sallyport/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { TestNetwork, type TestRouter } from "../../testing/test-network.ts";
import { TestSdk } from "../../testing/test-sdk.ts";
import { TransportEgress } from "./transport-egress.ts";

const MiB = 1024 * 1024;

let network: TestNetwork;
let a: TestRouter;
let b: TestRouter;
let sdk: TestSdk;
let server: Server;
let accepted: Promise<Socket>;

beforeEach(async () => {
  network = await TestNetwork.create();
  a = await network.addRouter("rA");
  b = await network.addRouter("rB");
  await network.link(a, b);
  b.forwarder.registerEgress(
    "transport",
    new TransportEgress(b.forwarder, {
      xgress: xgressDefaults,
      connectTimeoutMs: 0,
      mtu: 0,
      identity: () => b.identity,
    }),
  );
  sdk = await TestSdk.connect(a.port.port, await network.client("alice"));
  server = createServer({ allowHalfOpen: true });
  accepted = once(server, "connection").then(([socket]) => (socket as Socket).on("error", () => {}));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});

afterEach(async () => {
  sdk.close();
  server.close();
  await network.close();
});

function terminate(address: string): string {
  network.addTerminator({ service: "tcp", routerId: "rB", binding: "transport", address });
  return network.session("tcp", "Dial");
}

function port(): number {
  const address = server.address();
  return typeof address === "object" && address !== null ? address.port : 0;
}

test.runIf(process.platform === "linux")("connects from the address that `bind` of the dialer names", async () => {
  const o = { xgress: xgressDefaults, connectTimeoutMs: 0, mtu: 0, identity: () => b.identity };
  const removed = b.forwarder.registerEgress(
    "bound",
    new TransportEgress(b.forwarder, { ...o, localAddress: "127.0.0.9" }),
  );
  network.addTerminator({ service: "s", routerId: "rB", binding: "bound", address: `tcp:127.0.0.1:${port()}` });
  await sdk.connect(network.session("s", "Dial"));
  expect((await accepted).remoteAddress).toBe("127.0.0.9");
  removed();
});

test("bytes both ways, then half close in both directions ends the circuit", async () => {
  const connection = await sdk.connect(terminate(`tcp:127.0.0.1:${port()}`));
  const socket = await accepted;
  const up = randomBytes(5 * MiB);
  const down = randomBytes(5 * MiB);
  const atSocket = createHash("sha256");
  const atSdk = createHash("sha256");
  socket.on("data", (chunk) => atSocket.update(chunk));
  connection.onData = (buffer, start, end) => atSdk.update(buffer.subarray(start, end));
  socket.end(down);
  for (let at = 0; at < up.length; at += 10_000) connection.send(up.subarray(at, at + 10_000));
  connection.finish();
  await Promise.all([once(socket, "end"), connection.whenFin()]);
  expect(connection.received).toBe(down.length);
  expect(atSdk.digest("hex")).toBe(createHash("sha256").update(down).digest("hex"));
  expect(atSocket.digest("hex")).toBe(createHash("sha256").update(up).digest("hex"));
  connection.close();
  await expect.poll(() => network.faults.length).toBe(2);
});

test("a service that does not read stops the sender; nothing is lost when it reads on", async () => {
  const connection = await sdk.connect(terminate(`tcp:127.0.0.1:${port()}`));
  const socket = await accepted;
  socket.pause();
  const block = randomBytes(16_000);
  const expected = createHash("sha256");
  const total = 3_000 * block.length;
  const sending = (async () => {
    for (let i = 0; i < 3_000; i++) {
      expected.update(block);
      connection.send(block);
      await connection.drained();
    }
    connection.finish();
  })();
  await expect.poll(() => sdk.channel.isFull, { timeout: 10_000 }).toBe(true);
  const got = createHash("sha256");
  let received = 0;
  socket.on("data", (chunk) => {
    received += chunk.length;
    got.update(chunk);
  });
  socket.resume();
  await sending;
  if (!socket.readableEnded) await once(socket, "end");
  expect(received).toBe(total);
  expect(got.digest("hex")).toBe(expected.digest("hex"));
});

test("a service that resets its connection ends the circuit at the client", async () => {
  const connection = await sdk.connect(terminate(`tcp:127.0.0.1:${port()}`));
  const socket = await accepted;
  connection.send(Buffer.from("hello"));
  await once(socket, "data");
  socket.resetAndDestroy();
  expect(await connection.whenClosed()).not.toBe("");
});

test("the addresses of the connection are peer data, refusals and bad addresses have their codes", async () => {
  const route = (destination: string): ReturnType<typeof b.forwarder.route> =>
    b.forwarder.route(
      {
        circuitId: `c-${destination}`,
        attempt: 0,
        egress: { binding: "transport", address: `x-${destination}`, destination, peerData: {} },
        forwards: [{ srcAddress: "l", dstAddress: `x-${destination}`, dstType: 1 }],
        timeout: 2_000_000_000n,
        tags: {},
      },
      "ctrl",
    );
  const good = await route(`tcp:127.0.0.1:${port()}`);
  expect(good.ok).toBe(true);
  expect(good.peerData.get(1111)?.toString()).toBe(`127.0.0.1:${port()}`);
  expect((await route(`tcp:127.0.0.1:${port()}`)).ok).toBe(true);
  expect(await route("tcp:127.0.0.1:1")).toMatchObject({ ok: false, errorCode: RouteErrorCode.ConnectionRefused });
  expect(await route("nonsense")).toMatchObject({ ok: false, errorCode: RouteErrorCode.MisconfiguredTerminator });
  expect(await route("dtls:127.0.0.1:53")).toMatchObject({ errorCode: RouteErrorCode.MisconfiguredTerminator });
  const unknown = await b.forwarder.route(
    {
      circuitId: "c",
      attempt: 0,
      egress: { binding: "proxy", address: "x", destination: "y", peerData: {} },
      forwards: [],
      timeout: 1n,
      tags: {},
    },
    "ctrl",
  );
  expect(unknown).toMatchObject({ ok: false, errorCode: RouteErrorCode.MisconfiguredTerminator });
  const refused = await sdk.requestConnect(terminate("tcp:127.0.0.1:1"));
  expect(refused.answer.contentType).toBe(EdgeType.StateClosed);
});
