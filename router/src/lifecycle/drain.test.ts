import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { EdgeHeader, Headers, silentLogger, xgressDefaults } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { TestNetwork, type TestRouter } from "../testing/test-network.ts";
import { TestSdk } from "../testing/test-sdk.ts";
import { TransportEgress } from "../xgress/transport/transport-egress.ts";
import { UdpEgress } from "../xgress/udp/udp-egress.ts";
import { drain } from "./drain.ts";

let network: TestNetwork;
let a: TestRouter;
let b: TestRouter;
let sdk: TestSdk;
let streams: Server;
let datagrams: Socket;
const calls: string[] = [];

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
  b.forwarder.registerEgress("transport_udp", new UdpEgress(b.forwarder, { xgress: xgressDefaults }));
  sdk = await TestSdk.connect(a.port.port, await network.client("alice"));
  streams = createServer((socket) => void socket.on("error", () => {}).pipe(socket));
  streams.listen(0, "127.0.0.1");
  datagrams = createSocket("udp4");
  datagrams.bind(0, "127.0.0.1");
  await Promise.all([once(streams, "listening"), once(datagrams, "listening")]);
});

afterEach(async () => {
  sdk.close();
  streams.close();
  datagrams.close();
  await network.close();
  calls.length = 0;
});

async function connect(binding: "transport" | "transport_udp"): Promise<Awaited<ReturnType<TestSdk["connect"]>>> {
  const { port } = (binding === "transport" ? streams.address() : datagrams.address()) as AddressInfo;
  const address = `${binding === "transport" ? "tcp" : "udp"}:127.0.0.1:${port}`;
  network.addTerminator({ service: binding, routerId: "rB", binding, address });
  return await sdk.connect(network.session(binding, "Dial"));
}

function draining(router: TestRouter, o: { limitMs?: number; signal?: AbortSignal } = {}): Promise<number> {
  const quiesce = { begin: async () => calls.push("avoid me") > 0 };
  const parts = { quiesce, edge: router.edge, forwarder: router.forwarder, log: silentLogger };
  return drain(parts, { limitMs: 60_000, signal: new AbortController().signal, ...o });
}

describe("draining a router", () => {
  it("lasts until the circuits that end here have ended", async () => {
    const connection = await connect("transport");
    let isDone = false;
    const done = draining(b).finally(() => {
      isDone = true;
    });
    await expect.poll(() => calls).toEqual(["avoid me"]);
    // The circuit goes on.
    connection.send(Buffer.from("still there?"));
    await expect.poll(() => connection.received).toBe(12);
    expect(isDone).toBe(false);
    connection.close();
    expect(await done).toBe(0);
  });

  it("lasts a moment only when all that is left are circuits with datagrams", async () => {
    await connect("transport_udp");
    expect([...b.forwarder.ends()].map(({ carriesDatagrams }) => carriesDatagrams)).toEqual([true]);
    expect(await draining(b)).toBe(1);
  });

  it.each([false, true])(
    "knows from the dialler's app data that an SDK's circuit carries datagrams, at both of its ends (flow control by the SDK: %s)",
    async (bySdk) => {
      const host = await TestSdk.connect(b.port.port, await network.client("host"));
      network.sessions.set("bind", { service: "s", type: "Bind" });
      network.sessions.set("dial", { service: "s", type: "Dial" });
      const bind = new Headers().setBool(EdgeHeader.RouterProvidedConnId, true);
      if (bySdk) bind.setBool(EdgeHeader.UseXgressToSdk, true);
      await host.requestBind("bind", { headers: bind });
      const dial = (protocol: string): Headers => {
        const headers = new Headers().setString(EdgeHeader.AppData, `{"dst_protocol":"${protocol}"}`);
        return bySdk ? headers.setBool(EdgeHeader.UseXgressToSdk, true) : headers;
      };
      await sdk.connect("dial", { headers: dial("udp") });
      for (const router of [a, b]) {
        expect([...router.forwarder.ends()].map(({ carriesDatagrams }) => carriesDatagrams)).toEqual([true]);
      }
      const stream = await sdk.connect("dial", { headers: dial("tcp") });
      let isDone = false;
      const done = draining(a).finally(() => {
        isDone = true;
      });
      // Both circuits are on one channel, which is not closed for the one as long as the other goes on.
      await expect.poll(() => calls).toEqual(["avoid me"]);
      expect([isDone, sdk.channel.isClosed]).toEqual([false, false]);
      stream.close();
      await sdk.channel.closed;
      // What the channel's end leaves of the circuit may still be there.
      expect(await done).toBeLessThanOrEqual(1);
      host.close();
    },
  );

  it("leaves hosts their listeners for a moment, through which circuits still come, and sends dialers away at once", async () => {
    const host = await TestSdk.connect(b.port.port, await network.client("host"));
    const idle = await TestSdk.connect(b.port.port, await network.client("idle"));
    network.sessions.set("bind", { service: "s", type: "Bind" });
    network.sessions.set("dial", { service: "s", type: "Dial" });
    await host.requestBind("bind", { headers: new Headers().setBool(EdgeHeader.RouterProvidedConnId, true) });
    const done = draining(b, { limitMs: 20_000 });
    await idle.channel.closed;
    const late = await sdk.connect("dial");
    expect(host.channel.isClosed).toBe(false);
    late.close();
    await host.channel.closed;
    await done;
  });

  it("is over at its limit, at once without one, and when it is told", async () => {
    await connect("transport");
    expect(await draining(b, { limitMs: 100 })).toBe(1);
    calls.length = 0;
    expect(await draining(b, { limitMs: 0 })).toBe(1);
    expect(calls).toEqual([]);
    const told = new AbortController();
    const done = draining(b, { signal: told.signal });
    await expect.poll(() => calls).toEqual(["avoid me"]);
    told.abort();
    expect(await done).toBe(1);
  });

  it("does not wait for a controller that does not answer once it is told to end", async () => {
    const told = new AbortController();
    const parts = { quiesce: { begin: () => new Promise<never>(() => {}) }, edge: undefined, forwarder: b.forwarder };
    const done = drain({ ...parts, log: silentLogger }, { limitMs: 60_000, signal: told.signal });
    told.abort();
    expect(await done).toBe(0);
  });
});
