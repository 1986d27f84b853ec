import { setTimeout as delay } from "node:timers/promises";
import { type ApiClient, ApiError, createClient } from "@sallyport/api";
import { Context, type EdgeConnection } from "@sallyport/sdk";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type ReplicatedServer, ReplicatedServers } from "../../controller/src/store/testing/replicated-servers.ts";
import { receiveNext, writePseudoRandom } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const PIECE = 256 * 1024;
/** How long a wait may last until the test gives up; far above what is measured. */
const PATIENCE_MS = 60_000;

let folder: string;
let servers: ReplicatedServers;
let network: Network;
let fabric: ApiClient<"fabric">;
let client: Context;
const contexts: Context[] = [];
/** Codes of programs that have ended. */
let ended: (number | null)[] = [];

beforeEach(async () => {
  folder = makeScratch("failover");
  servers = await ReplicatedServers.start();
  network = await startNetwork(folder, { controllerArgs: ["--database-url", servers.url()] });
  fabric = createClient("fabric", { baseUrl: `https://localhost:${network.port}`, tls: { rejectUnauthorized: false } });
  await renewFabric();
  const { hostFile, clientFile } = await declareService(network, { name: "steady" });
  await hostEcho(await load(hostFile), "steady");
  client = await load(clientFile);
  await eventually("a first circuit", async () => {
    const circuit = await dial("steady");
    await echoes(circuit, 1);
    circuit.end();
    return true;
  });
  ended = [];
  for (const program of [network.controller, ...network.routers]) void program.exited.then((code) => ended.push(code));
});
afterEach(async () => {
  await Promise.all(contexts.splice(0).map((context) => context.close()));
  fabric?.close();
  await network?.stop();
  await servers?.stop();
  removeScratch(folder);
});

async function load(file: string): Promise<Context> {
  const context = await Context.load(file, { refreshIntervalMs: 500 });
  contexts.push(context);
  return context;
}

async function renewFabric(): Promise<void> {
  const query = { method: "password" } as const;
  const body = { username: "admin", password: network.adminPassword };
  const { data } = await network.management.authenticate({ query, body });
  fabric.setToken(data.token);
}

const dial = (service: string): Promise<EdgeConnection> =>
  client.dial(service, { allowHalfOpen: true, timeoutMs: 15_000 });

async function echoes(circuit: EdgeConnection, seed: number): Promise<void> {
  const [sent, received] = await Promise.all([writePseudoRandom(circuit, seed, PIECE), receiveNext(circuit, PIECE)]);
  expect(received).toEqual({ length: PIECE, sha256: sent });
}

/** Creates a service; resolves with its id. */
async function create(name: string): Promise<string> {
  const { data } = await network.management.createService({ body: { name, encryptionRequired: true } });
  return data.id;
}

/** Takes the client's right to dial `steady` away. */
async function withdraw(): Promise<void> {
  const { data } = await network.management.listServicePolicies({ query: { filter: 'name = "steady-client"' } });
  await network.management.deleteServicePolicy({ params: { id: data[0]?.id ?? "" } });
}

async function serviceNames(): Promise<string[]> {
  const { data } = await network.management.listServices({ query: { limit: 500 } });
  return data.map(({ name }) => name).toSorted();
}

/** What each router knows: the timeline of its data model, and how many services and policies it has. */
async function known(): Promise<{ timeline: string; services: number; policies: number }[]> {
  const answer = await fabric.inspect({ body: { appRegex: ".*", requestedValues: ["router-data-model"] } });
  return (answer.data.values ?? []).map(({ value }) => {
    const { timeline, counts } = value as { timeline: string; counts: Record<string, number> };
    return { timeline, services: counts.service ?? 0, policies: counts["service-policy"] ?? 0 };
  });
}

/** Does a router refuse a dial now? */
async function isRefused(service: string): Promise<boolean> {
  return dial(service).then(
    (circuit) => {
      circuit.destroy();
      return false;
    },
    () => true,
  );
}

/** Waits until the server takes writes; resolves with the moment. */
async function takesWrites(server: ReplicatedServer): Promise<number> {
  for (;;) {
    const [row] = await server.query<{ standby: boolean }>("SELECT pg_is_in_recovery() AS standby");
    if (row?.standby === false) return performance.now();
    await delay(10);
  }
}

describe("PostgreSQL fails over", { timeout: 240_000 }, () => {
  it("requests are refused with 503 and Retry-After meanwhile, circuits live on, no process exits, and the former primary is not used again", async () => {
    const { first, second } = servers;
    const circuit = await dial("steady");
    // Each exchange listens for the end of the stream.
    circuit.setMaxListeners(100);
    await servers.settled();
    const before = await serviceNames();
    await first.kill();
    for (let i = 0; i < 10; i++) {
      for (const request of [serviceNames(), create(`during-${i}`)]) {
        const error = await request.then(
          (answer) => answer,
          (failure: unknown) => failure,
        );
        expect(error).toBeInstanceOf(ApiError);
        const { status, headers } = error as ApiError;
        expect([status, Number(headers?.["retry-after"])]).toEqual([503, expect.any(Number)]);
        expect(Number(headers?.["retry-after"])).toBeGreaterThan(0);
      }
      await echoes(circuit, i);
    }
    await second.promote();
    const since = await takesWrites(second);
    await eventually("a write", () => create("after"), PATIENCE_MS);
    console.info(`the API writes ${Math.round(performance.now() - since)} ms after the new primary took writes`);
    await echoes(circuit, 20);
    await eventually("another circuit", async () => {
      const other = await dial("steady");
      await echoes(other, 21);
      other.end();
      return true;
    });

    // A split brain: it takes writes, and nothing of the network gets there.
    await first.start();
    expect(await takesWrites(first)).toBeGreaterThan(0);
    await create("later");
    expect(await serviceNames()).toEqual([...before, "after", "later"].toSorted());
    const there = await first.query<{ name: string }>("SELECT name FROM service", "sallyport");
    expect(there.map(({ name }) => name).toSorted()).toEqual(before);
    // Nor after a restart: the controller sees both, and takes the one that was promoted.
    expect(ended).toEqual([]);
    await network.restartController();
    expect(await eventually("the list", serviceNames)).toEqual([...before, "after", "later"].toSorted());
    expect(network.controller.tail.join("\n")).toMatch(
      /"former":\["127.0.0.1:\d+"\],"msg":"several servers of the database/,
    );
    await echoes(circuit, 22);
    circuit.end();
  });

  it("with asynchronous replication, routers forget acknowledged changes that the new primary has never seen", async () => {
    const { first, second } = servers;
    await servers.settled();
    const before = await serviceNames();
    const [then] = await known();
    await servers.part();

    // Acknowledged and lost: services, and that a client may not dial any more.
    for (let i = 0; i < 20; i++) await create(`lost-${i}`);
    await withdraw();
    await eventually("the routers know it", async () =>
      (await known()).every(({ services }) => services === before.length + 20),
    );
    await eventually("a refused dial", () => isRefused("steady"));

    await first.kill();
    await second.promote();
    await takesWrites(second);
    expect(await eventually("the API", serviceNames, PATIENCE_MS)).toEqual(before);
    await eventually("routers have what the database has", async () =>
      (await known()).every(({ services, policies }) => services === then?.services && policies === then.policies),
    );
    for (const { timeline } of await known()) expect(timeline).not.toBe(then?.timeline);
    await eventually("the client dials again", async () => {
      const circuit = await dial("steady");
      await echoes(circuit, 3);
      circuit.end();
      return true;
    });

    // What comes now has lower numbers than what was lost, and arrives all the same.
    await withdraw();
    await eventually("a refused dial", () => isRefused("steady"));
    expect(ended).toEqual([]);
  });

  it("with synchronous replication, an acknowledged write is never lost, and a primary without its standby acknowledges none", async () => {
    const { first, second } = servers;
    await servers.makeSynchronous();
    await create("kept");
    await servers.part();
    const unacknowledged = create("unacknowledged").then(
      () => "acknowledged",
      () => "not acknowledged",
    );
    expect(await unacknowledged).toBe("not acknowledged");
    await first.kill();
    await second.promote();
    await eventually("the API", async () => (await serviceNames()).includes("kept"), PATIENCE_MS);
    expect(await serviceNames()).not.toContain("unacknowledged");
    expect(ended).toEqual([]);
  });
});
