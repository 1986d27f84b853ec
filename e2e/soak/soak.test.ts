/**
 * A network under random faults: what comes through must be what was sent, and nothing may pile up in any process.
 *
 * What a circuit must survive, so that its transfer has to end with the right checksum: every fault of a link (reset,
 * silence, packets lost or late, little room), a transit router that ends in whatever way, a controller that is killed
 * and started again, one of two. Two rules keep these within the limits that docs/router.md tells ("When something goes away"):
 * one fault at a time, and the next only when it is over for all routers: each pair linked again (after a reset by another
 * link, after a silence by connections none of which is dead), lost packets repaired, each router online. So there always
 * is a way between the ends, and never is a way lost while there is no controller that could move circuits to another.
 *
 * What it need not survive: the end of a router that it begins or ends at. Then its transfer must break with an error,
 * never end as if it were whole, and the traffic dials again. A dial may fail at any time, with an error and before a
 * byte has come back.
 *
 * What processes hold (memory, sockets, descriptors, timers) is asked twice, when there is neither traffic nor fault nor
 * circuit and nothing runs out any more: after 30 % of the time, and at the end. Garbage is collected before memory is
 * read. See `growth` for what one may hold more than before. A program that a fault ended in between is a fresh one and
 * proves little; tunnelers and SDKs run from the beginning to the end.
 */
import { Socket } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Context } from "@sallyport/sdk";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { urlOf } from "../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../controller/src/store/testing/test-store.ts";
import { hasNamespaces, Site } from "../namespaces/network-namespace.ts";
import { exchange, openTcp, startEcho, type TcpServer } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { type Mesh, startMesh } from "../network/mesh.ts";
import { declareService } from "../network/network.ts";
import type { Program } from "../network/program.ts";
import { RestartedReplica, startShared } from "../network/replicas.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { TRIANGLE } from "../network/triangle.ts";
import { allow, declareConfigured, declareIdentity, startTunneler } from "../network/tunneler.ts";
import { type Excuses, nextFault } from "./faults.ts";
import { growth, type Held, hasFallen, heldBy, heldHere } from "./held.ts";
import { Random } from "./random.ts";

const MINUTES = Number(process.env.MINUTES ?? 10);
const SEED = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));
/** Controllers on one database; one has its own. */
const CONTROLLERS = Number(process.env.CONTROLLERS ?? 2);
const KIB = 1024;

describe.skipIf(!hasNamespaces)(`a network under random faults for ${MINUTES} minutes, seed ${SEED}`, () => {
  const folder = makeScratch("soak");
  const excuses: Excuses = { endRouter: Number.NEGATIVE_INFINITY };
  const random = new Random(SEED);
  const contexts: Context[] = [];
  const tunnelers: Program[] = [];
  const done = { transfers: 0, bytes: 0, broken: 0, refused: 0 };
  const refusals = new Map<string, number>();
  let site: Site;
  let mesh: Mesh;
  let database: Awaited<ReturnType<typeof testDatabase>> | undefined;
  let second: RestartedReplica | undefined;
  let echo: TcpServer;
  let client: Context;
  let tunnelPort = 0;
  let isOver = false;

  beforeAll(async () => {
    console.info(`soak: MINUTES=${MINUTES} SEED=${SEED} CONTROLLERS=${CONTROLLERS}`);
    const shared = CONTROLLERS > 1 ? await testDatabase() : undefined;
    database = shared;
    site = new Site();
    echo = await startEcho();
    // Also for programs that are started again in the middle.
    process.env.NODE_OPTIONS = `--import ${new URL("probe.ts", import.meta.url)}`;
    // What a router still has of a circuit that its controller knows no more ends when it was idle so long.
    const routerLines = "forwarder: { idleCircuitTimeout: 30000, idleTxInterval: 5000 }\n";
    mesh = await startMesh(join(folder, "mesh"), {
      ...{ linkTimeout: "5s", pairs: TRIANGLE, routerLines },
      ...(shared && { start: (dir, options) => startShared(dir, urlOf(shared.connection), options) }),
    });
    const { network } = mesh;
    if (shared) second = await RestartedReplica.start(network, "c2");
    const service = await declareService(network, { name: "sdk" });
    const host = await Context.load(service.hostFile);
    client = await Context.load(service.clientFile);
    contexts.push(host, client);
    await hostEcho(host, "sdk");
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
    await second?.program.stop();
    await mesh?.stop();
    await database?.drop();
    await echo?.close();
    await site?.close();
    removeScratch(folder);
  });

  const bySdk = async () => await client.dial("sdk", { allowHalfOpen: true, timeoutMs: 30_000 });
  const byTunnel = async () => await openTcp(tunnelPort);
  const programs = (): [string, Program][] => [
    ...["controller", "r1", "r2", "r3"].map((name): [string, Program] => [name, mesh.network.program(name)]),
    ...(second ? [[second.id, second.program] as [string, Program]] : []),
    ["tunnel-host", tunnelers[0]!],
    ["tunnel-client", tunnelers[1]!],
  ];

  /** One transfer after the other. A connection may only fail to come about, or break with a router at one of its ends. */
  async function traffic(open: typeof bySdk | typeof byTunnel, seed: number): Promise<void> {
    const own = new Random(seed);
    while (!isOver) {
      const stream = await open().catch((error: unknown) => {
        const reason = String(error).replace(/\b\w{15,}\b/g, "…");
        refusals.set(reason, (refusals.get(reason) ?? 0) + 1);
      });
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
        const isRefusal =
          stream instanceof Socket && stream.bytesRead === 0 && /before its end|ECONNRESET/.test(String(error));
        const words = `${error instanceof Error ? error.message : error}`;
        const isTruncated = /not the ones that were sent|of \d+ bytes came back/.test(words);
        if (isTruncated || (excuses.endRouter < started && !isRefusal)) {
          const age = Math.round(performance.now() - started);
          throw new Error(`${new Date().toISOString()} ${open === bySdk ? "SDK" : "tunneler"}, ${age} ms: ${words}`, {
            cause: error,
          });
        }
        done.broken++;
        await delay(100);
      }
    }
  }

  /** Each pair is linked, each router online. */
  async function whole(): Promise<void> {
    await eventually(
      "every router is online",
      async () => {
        const { data } = await mesh.network.management.listEdgeRouters();
        return data.every((router) => router.isOnline);
      },
      60_000,
    );
    for (const [one, other] of TRIANGLE) await mesh.linked(one, other);
  }

  /** No traffic, no fault, every router in place, no circuit left. */
  async function quiet(): Promise<void> {
    await whole();
    await eventually(
      "no circuit is left",
      async () => (await mesh.fabric.listCircuits({ query: { limit: 100 } })).data.length === 0,
      180_000,
    );
    await eventually(
      "no router has one left either",
      async () => {
        const body = { appRegex: ".*", requestedValues: ["router-circuits"] };
        const values = (await mesh.fabric.inspect({ body })).data.values ?? [];
        const left = values.flatMap(({ appId, value }) =>
          Object.keys((value as { circuits?: object }).circuits ?? {}).map((id) => `${id} at ${appId}`),
        );
        if (left.length > 0) throw new Error(left.join(", "));
        return values.length === 3;
      },
      300_000,
    );
  }

  async function holdings(): Promise<Map<string, Held>> {
    const held = new Map<string, Held>([["SDKs of the test", heldHere()]]);
    for (const [name, program] of programs()) held.set(name, await heldBy(program));
    return held;
  }

  /** The same when nothing of the traffic lingers any more: SDKs keep the ids of connections for half a minute. */
  async function settled(): Promise<Map<string, Held>> {
    let held = await holdings();
    const until = performance.now() + 60_000;
    for (let isFalling = true; isFalling && performance.now() < until; ) {
      await delay(5_000);
      const next = await holdings();
      isFalling = [...next].some(([name, now]) => hasFallen(held.get(name) ?? now, now));
      held = next;
    }
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
      const fault = nextFault(random, { mesh, here: site.here(), pairs: TRIANGLE, second, excuses });
      console.info(`${new Date().toISOString()} ${fault.name}`);
      await fault.run();
      // One at a time: the next comes when everything is whole again.
      await whole();
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
    const before = await settled();
    await underFaults(total * 0.7);
    let after = await settled();
    const grown = (): string[] =>
      [...after].flatMap(([name, held]) => {
        const first = before.get(name);
        return first === undefined ? [] : growth(first, held).map((what) => `${name}: ${what}`);
      });
    // What goes away by itself within a minute does not pile up.
    for (const until = performance.now() + 60_000; grown().length > 0 && performance.now() < until; ) {
      console.info(`soak: more than before, so far: ${grown().join("; ")}`);
      await delay(5_000);
      after = await holdings();
    }
    console.info(`soak: ${JSON.stringify(done)}`);
    for (const [reason, count] of refusals) console.info(`soak: ${count} dials: ${reason}`);
    for (const [name, held] of after)
      console.info(`soak: ${name} ${JSON.stringify(before.get(name))} -> ${JSON.stringify(held)}`);
    expect(grown()).toEqual([]);
    expect(done.transfers).toBeGreaterThan(MINUTES * 10);
  });
});
