import { join } from "node:path";
import { createClient } from "@sallyport/api";
import { Context, type ServiceListener } from "@sallyport/sdk";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { exchangeUnder } from "../network/cuts.ts";
import { eventually } from "../network/eventually.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { peer } from "./peer.ts";

const MIB = 1024 * 1024;
/** Three connections for everything and one for acknowledgements: what our dialer, and that of the relay, want. */
const COMPLETE = /^accepted 3\+1 dialed 3\+1$/;
/** So long may heartbeats on a connection stay unanswered. */
const PATIENCE_MS = 8_000;

/**
 * A link of two of our routers which OpenZiti's channel module ends and makes again on its way: our `r1` dials what it takes for
 * `r2`, and our `r2` is dialed by what it takes for `r1`. The module spreads what it sends over the connections of a group, without
 * regard to order.
 */
describe.skipIf(peer.linkRelay === "")("grouped links with OpenZiti's channel module at the other end", () => {
  let folder = "";
  let network: Network;
  let relay: Program;
  let opened: { close(): Promise<void> }[] = [];

  beforeAll(async () => {
    folder = makeScratch("grouped-links");
    const networkFolder = join(folder, "network");
    const [relayPort = 0, linkPort = 0] = await freePorts(2);
    network = await startNetwork(networkFolder, {
      routerSettings: (name, text) =>
        text.replace(
          /^link:\n(?: .*\n)*/m,
          name === "r1"
            ? `link:
  heartbeats: { sendInterval: 500ms, checkInterval: 100ms, closeUnresponsiveTimeout: ${PATIENCE_MS / 1000}s }
  dialers:
    - binding: transport
      startupDelay: 100ms
      maxDefaultConnections: 3
      maxAckConnections: 1
      healthyDialBackoff: { minRetryInterval: 100ms, maxRetryInterval: 1s }
      unhealthyDialBackoff: { minRetryInterval: 100ms, maxRetryInterval: 1s }
  listeners: []
`
            : `link:
  heartbeats: { sendInterval: 500ms, checkInterval: 100ms, closeUnresponsiveTimeout: ${PATIENCE_MS / 1000}s }
  dialers: []
  listeners:
    - binding: transport
      bind: tls:127.0.0.1:${linkPort}
      advertise: tls:localhost:${relayPort}
`,
        ),
      onStep: (what) => {
        // It needs the keys of both routers, and the routers are not linked before it runs.
        if (!/router r2 .*online/.test(what)) return;
        const args = [networkFolder, "r1", "r2", String(relayPort), String(linkPort)];
        relay = new Program({ name: "relay", command: peer.linkRelay, args, logFile: join(folder, "relay.log") });
      },
    });
    await relay.line(COMPLETE);
  });

  afterEach(async () => {
    for (const each of opened.toReversed()) await each.close();
    opened = [];
  });

  afterAll(async () => {
    await network?.stop();
    await relay?.stop();
    removeScratch(folder);
  });

  /** A service that echoes; circuits begin at `from` and end at `to`. */
  const serve = async (name: string, from: string, to: string): Promise<Context> => {
    const files = await declareService(network, { name, clientRouters: [from], hostRouters: [to] });
    const host = await Context.load(files.hostFile);
    opened.push(host);
    const listener: ServiceListener = await host.listen(name, { allowHalfOpen: true });
    listener.on("connection", (connection) => connection.on("error", () => {}).pipe(connection));
    const client = await Context.load(files.clientFile);
    opened.push(client);
    const dial = () => client.dial(name, { allowHalfOpen: true });
    await eventually("a first echo", async () => exchange(await dial(), 1, 1_000).then(() => true));
    return client;
  };

  const links = async (): Promise<{ id: string; iteration: number }[]> => {
    const fabric = createClient("fabric", {
      baseUrl: `https://localhost:${network.port}`,
      tls: { rejectUnauthorized: false },
    });
    try {
      const session = await network.management.authenticate({
        query: { method: "password" },
        body: { username: "admin", password: network.adminPassword },
      });
      fabric.setToken(session.data.token);
      const { data } = await fabric.listLinks({ query: { limit: 100 } });
      return data.filter(({ state }) => state.toLowerCase() === "connected");
    } finally {
      fabric.close();
    }
  };

  describe.each([
    ["r1", "r2"],
    ["r2", "r1"],
  ])("circuits from %s to %s", (from, to) => {
    it("carry 32 MiB, and ten at a time, each direction ended by itself", async () => {
      const name = `echo-${from}`;
      const client = await serve(name, from, to);
      const dial = () => client.dial(name, { allowHalfOpen: true });
      await exchange(await dial(), 2, 32 * MIB);
      await Promise.all(Array.from({ length: 10 }, async (_, i) => exchange(await dial(), i, MIB / 4)));
    });

    it("lose nothing when one connection breaks on either side, and the group is completed again", async () => {
      const name = `broken-${from}`;
      const client = await serve(name, from, to);
      const [before] = await links();
      const breakOne = async (): Promise<void> => {
        // Both sides lose one of their three, and each dialer, ours and OpenZiti's, dials another.
        const lost = relay.nextLine(/accepted 2|dialed 2/);
        relay.signal("SIGUSR1");
        await lost;
        await eventually("both are whole again", () => COMPLETE.test(relay.tail.at(-1) ?? ""), 60_000);
      };
      const circuit = await client.dial(name, { allowHalfOpen: true });
      await exchangeUnder(circuit, 3, 32 * MIB, [breakOne, breakOne]);
      expect(await links()).toEqual([before]);
    });
  });

  it("keep all their connections: the module answers what it is asked on each of them, wherever", async () => {
    expect(relay.tail.at(-1)).toMatch(COMPLETE);
    await expect(relay.nextLine(/accepted|dialed/, 2 * PATIENCE_MS)).rejects.toThrow(/accepted\|dialed/);
  });

  it("are made again when every connection breaks", async () => {
    const client = await serve("again", "r1", "r2");
    const [before] = await links();
    const again = relay.nextLine(COMPLETE);
    relay.signal("SIGUSR2");
    await again;
    await eventually("a later link", async () => {
      const [after] = await links();
      return after !== undefined && after.iteration > (before?.iteration ?? 0);
    });
    await eventually("an echo over it", async () => {
      await exchange(await client.dial("again", { allowHalfOpen: true }), 4, MIB);
      return true;
    });
  });
});
