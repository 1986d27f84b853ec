import { join } from "node:path";
import { createClient } from "@sallyport/api";
import { Context, type EdgeConnection, type ServiceListener } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exchange } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { allow, declareIdentity } from "../network/tunneler.ts";
import { hasNamespaces, Site } from "./network-namespace.ts";

/** docs/router.md, "When something goes away": SDKs notice a silent router within 20 s, and new circuits are there 5 s later. */
const NOTICED_MS = 20_000;
const DIALLED_AFTER_MS = 5_000;
/** Who vanishes right behind a look is noticed at the very end of that time; timers and the test itself come later, the keep-alive after 25 s. */
const ASKED_AFTER_MS = 3_000;

const halfOpen = { allowHalfOpen: true };
const routers = ["r1", "r2"];
/** Each router has an address of its own, from which it also dials: a filter on its packets cuts it off from all others. */
const addressOf = (router: string): string => `127.0.1.${routers.indexOf(router) + 1}`;

/** Both ends may use both routers. The one that carries the client's connection vanishes: no end is told, no connection is reset. */
describe.skipIf(!hasNamespaces)("a router whose packets are dropped, all of them and without a word", () => {
  const folder = makeScratch("silent-router");
  const site = new Site();
  let network: Network;
  let host: Context;
  let client: Context;
  let listener: ServiceListener;
  let files: { client: string; r1: string; r2: string };

  beforeAll(async () => {
    for (const name of routers) await site.here().ip("addr", "add", `${addressOf(name)}/32`, "dev", "lo");
    network = await startNetwork(join(folder, "network"), {
      routerSettings: (name, text) =>
        text
          .replaceAll(/(bind: tls:)127\.0\.0\.1:/g, `$1${addressOf(name)}:`)
          .replaceAll("advertise: localhost:", `advertise: ${addressOf(name)}:`)
          .replace('ip: ["127.0.0.1"]', `ip: ["${addressOf(name)}"]`)
          .replace(/^( +endpoint: .*)$/m, `$1\n  bind: ${addressOf(name)}`)
          .replace(/(dialers:\n {4}- binding: transport)/, `$1\n      bind: ${addressOf(name)}`),
    });
    const declared = await declareService(network, { name: "echo", hostRouters: routers, clientRouters: routers });
    const [r1, r2] = await Promise.all(
      routers.map(async (router) => {
        const { file } = await declareIdentity(network, `only-${router}`, router);
        await allow(network, "Dial", `only-${router}`, "echo");
        return file;
      }),
    );
    files = { client: declared.clientFile, r1: r1 ?? "", r2: r2 ?? "" };
    host = await Context.load(declared.hostFile);
    client = await Context.load(files.client);
    listener = await host.listen("echo", halfOpen);
    listener.on("error", () => {});
    listener.on("connection", (connection) => connection.on("error", () => {}).pipe(connection));
    await eventually("the service is hosted on both routers", () => listener.routers.length === 2);
  });

  afterAll(async () => {
    await site.here().endFaults();
    await client?.close();
    await host?.close();
    await network?.stop();
    for (const name of routers) await site.here().ip("addr", "del", `${addressOf(name)}/32`, "dev", "lo");
    await site.close();
    removeScratch(folder);
  });

  const firstRouterOf = async (connection: EdgeConnection): Promise<string> => {
    const baseUrl = `https://localhost:${network.port}`;
    const fabric = createClient("fabric", { baseUrl, tls: { rejectUnauthorized: false } });
    const session = await network.management.authenticate({
      query: { method: "password" },
      body: { username: "admin", password: network.adminPassword },
    });
    fabric.setToken(session.data.token);
    const { data } = await fabric.listCircuits({ query: { limit: 100 } });
    fabric.close();
    return data.find(({ id }) => id === connection.circuitId)?.path.nodes[0]?.name ?? "";
  };

  it("costs the connections through it; new dials succeed, and hosts are reached, over the other one in the promised time", async () => {
    // Clients that use one router alone: what they reach is what the host keeps there.
    const neighbours = await Promise.all([files.r1, files.r2].map((file) => Context.load(file)));
    for (const context of [client, ...neighbours]) await exchange(await context.dial("echo", halfOpen), 1, 100_000);
    // The router that the client thinks best now is the one that it dials over next.
    const lost = await client.dial("echo", halfOpen);
    const ended = new Promise<number>((resolve) => lost.once("close", () => resolve(performance.now())));
    lost.on("error", () => {});
    lost.resume();
    const gone = await firstRouterOf(lost);
    expect(routers).toContain(gone);
    const [neighbour, stranded] = (gone === "r1" ? neighbours.toReversed() : neighbours) as [Context, Context];

    const loss = await site.here().lose({ address: addressOf(gone) });
    const cut = performance.now();
    const took = async (what: Promise<unknown>): Promise<number> => {
      await what;
      return performance.now() - cut;
    };
    const within = NOTICED_MS + DIALLED_AFTER_MS;
    // One call each: what has to be tried again is the SDK's business.
    const dialled = async (context: Context, seed: number): Promise<void> =>
      await exchange(await context.dial("echo", { ...halfOpen, timeoutMs: within }), seed, 100_000);
    const times = {
      client: await took(dialled(client, 3)),
      neighbour: await took(dialled(neighbour, 4)),
    };
    expect(Math.max(...Object.values(times)), JSON.stringify(times)).toBeLessThan(within);
    expect((await ended) - cut).toBeLessThan(NOTICED_MS + ASKED_AFTER_MS);
    // It has nothing to send: only its own looking tells it. The system's keep-alive would, too, some seconds later.
    const alone = eventually("the host has noticed, too", () => listener.routers.length === 1, 2 * within);
    expect(await took(alone)).toBeLessThan(NOTICED_MS + ASKED_AFTER_MS);
    for (let seed = 5; seed < 15; seed++) await dialled(seed % 2 === 0 ? client : neighbour, seed);

    await loss.end();
    await eventually("the router is used again", () => listener.routers.length === 2, 120_000);
    await eventually(
      "an echo through it",
      async () => {
        await dialled(stranded, 15);
        return true;
      },
      120_000,
    );
    await Promise.all(neighbours.map((context) => context.close()));
  });
});
