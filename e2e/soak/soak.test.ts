import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasNamespaces, Site } from "../namespaces/network-namespace.ts";
import { exchange, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { type Mesh, startMesh } from "../network/mesh.ts";
import { declareService } from "../network/network.ts";
import { freePorts, type Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { allow, declareConfigured, declareIdentity, startTunneler } from "../network/tunneler.ts";
import { type Excuses, nextFault } from "./faults.ts";
import { growth, type Held, heldBy } from "./held.ts";
import { Random } from "./random.ts";

const MINUTES = Number(process.env.MINUTES ?? process.env.SALLYPORT_SOAK_MINUTES ?? 10);
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));
const KIB = 1024;
const PAIRS = [
  ["r1", "r2"],
  ["r1", "r3"],
  ["r3", "r2"],
] as const;

describe.skipIf(!hasNamespaces)(`a network under random faults for ${MINUTES} minutes, seed ${SEED}`, () => {
  const folder = makeScratch("soak");
  const excuses: Excuses = { endRouter: Number.NEGATIVE_INFINITY };
  const random = new Random(SEED);
  const contexts: Context[] = [];
  const tunnelers: Program[] = [];
  const done = { transfers: 0, bytes: 0, broken: 0, refused: 0 };
  let site: Site;
  let mesh: Mesh;
  let echo: TcpServer;
  let client: Context;
  let tunnelPort = 0;
  let isOver = false;

  beforeAll(async () => {
    console.info(`soak: MINUTES=${MINUTES} SEED=${SEED}`);
    site = new Site();
    echo = await startEcho();
    // Also for programs that are started again in the middle.
    process.env.NODE_OPTIONS = `--expose-gc --import ${new URL("probe.ts", import.meta.url)}`;
    mesh = await startMesh(join(folder, "mesh"), { linkTimeout: "5s", pairs: PAIRS });
    const { network } = mesh;
    const service = await declareService(network, { name: "sdk" });
    const host = await Context.load(service.hostFile);
    client = await Context.load(service.clientFile);
    contexts.push(host, client);
    const listener = await host.listen("sdk", { allowHalfOpen: true });
    listener.on("error", () => {});
    listener.on("connection", (connection) => {
      connection.on("error", () => {});
      connection.pipe(connection);
    });
    await declareConfigured(network, {
      name: "tunnelled",
      roles: ["tunnelled"],
      configs: { "host.v1": { protocol: "tcp", address: "127.0.0.1", port: echo.port } },
    });
    const [hosting, proxying] = [
      await declareIdentity(network, "tunnel-host", "r2"),
      await declareIdentity(network, "tunnel-client", "r1"),
    ];
    await allow(network, "Bind", "tunnel-host", "tunnelled");
    await allow(network, "Dial", "tunnel-client", "tunnelled");
    await network.management.createServiceEdgeRouterPolicy({
      body: { name: "tunnelled", semantic: "AnyOf", serviceRoles: ["#tunnelled"], edgeRouterRoles: ["#all"] },
    });
    [tunnelPort = 0] = await freePorts(1);
    tunnelers.push(
      startTunneler(network.folder, "tunnel-host", "host", "-i", hosting.file),
      startTunneler(network.folder, "tunnel-client", "proxy", "-i", proxying.file, `tunnelled:${tunnelPort}`),
    );
    for (const open of [bySdk, byTunnel]) {
      await eventually(
        "a first echo",
        async () => {
          await exchange(await open(), 1, KIB);
          return true;
        },
        180_000,
      );
    }
  });

  afterAll(async () => {
    isOver = true;
    delete process.env.NODE_OPTIONS;
    await Promise.all(contexts.map((context) => context.close()));
    for (const tunneler of tunnelers) await tunneler.stop();
    await mesh?.stop();
    await echo?.close();
    await site?.close();
    removeScratch(folder);
  });

  const bySdk = async () => await client.dial("sdk", { allowHalfOpen: true, timeoutMs: 30_000 });
  const byTunnel = async () => await openTcp(tunnelPort);
  const programs = (): [string, Program][] => [
    ...["controller", "r1", "r2", "r3"].map((name): [string, Program] => [name, mesh.network.program(name)]),
    ["tunnel-host", tunnelers[0]!],
    ["tunnel-client", tunnelers[1]!],
  ];

  /** One transfer after the other. A connection may only fail to come about, or break with a router at one of its ends. */
  async function traffic(open: typeof bySdk | typeof byTunnel, seed: number): Promise<void> {
    const own = new Random(seed);
    while (!isOver) {
      const stream = await open().catch(() => undefined);
      if (stream === undefined) {
        done.refused++;
        await delay(100);
        continue;
      }
      stream.on("error", () => {});
      const length = own.between(1, 64) * own.between(1, 64) * KIB;
      const started = performance.now();
      try {
        await exchange(stream, own.between(0, 255), length);
        done.transfers++;
        done.bytes += length;
      } catch (error) {
        stream.destroy();
        const isRefusal = open === byTunnel && /before its end|ECONNRESET/.test(String(error));
        const words = `${error instanceof Error ? error.message : error}`;
        if (/not the ones that were sent|of \d+ bytes came back/.test(words) && excuses.endRouter < started) {
          throw new Error(`${open === bySdk ? "SDK" : "tunneler"}: ${words}`, { cause: error });
        }
        if (excuses.endRouter < started && !isRefusal) throw error;
        done.broken++;
        await delay(100);
      }
    }
  }

  /** No traffic, no fault, every router in place, no circuit left. */
  async function quiet(): Promise<void> {
    for (const [one, other] of PAIRS) await mesh.linked(one, other);
    await eventually(
      "no circuit is left",
      async () => (await mesh.fabric.listCircuits({ query: { limit: 100 } })).data.length === 0,
      180_000,
    );
  }

  async function holdings(): Promise<Map<string, Held>> {
    const held = new Map<string, Held>();
    for (const [name, program] of programs()) held.set(name, await heldBy(program));
    return held;
  }

  async function underFaults(ms: number): Promise<void> {
    isOver = false;
    const seeds = Array.from({ length: 4 }, () => random.between(0, 1e9));
    const failed = new AbortController();
    const workers = seeds.map((seed, i) =>
      traffic(i % 2 === 0 ? bySdk : byTunnel, seed).catch((error: unknown) => {
        failed.abort(error);
      }),
    );
    const until = performance.now() + ms;
    while (performance.now() < until && !failed.signal.aborted) {
      const fault = nextFault(random, { mesh, here: site.here(), pairs: [...PAIRS], excuses });
      console.info(`${new Date().toISOString()} ${fault.name}`);
      await fault.run();
      // One at a time: the next comes when everything is whole again.
      for (const [one, other] of PAIRS) await mesh.linked(one, other);
      await delay(random.between(0, 1_000));
    }
    isOver = true;
    await Promise.all(workers);
    failed.signal.throwIfAborted();
    await quiet();
  }

  it("ends with every checksum right and nothing grown", async () => {
    const total = MINUTES * 60_000;
    await underFaults(total * 0.3);
    const before = await holdings();
    await underFaults(total * 0.7);
    const after = await holdings();
    console.info(`soak: ${JSON.stringify(done)}`);
    for (const [name, held] of after)
      console.info(`soak: ${name} ${JSON.stringify(before.get(name))} -> ${JSON.stringify(held)}`);
    const grown = [...after].flatMap(([name, held]) => {
      const first = before.get(name);
      return first === undefined ? [] : growth(first, held).map((what) => `${name}: ${what}`);
    });
    expect(grown).toEqual([]);
    expect(done.transfers).toBeGreaterThan(MINUTES * 10);
  });
});
