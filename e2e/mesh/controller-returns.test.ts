import { createHash } from "node:crypto";
import { once } from "node:events";
import { Context, type EdgeConnection } from "@sallyport/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exchange, pseudoRandom, receive, sendPseudoRandom } from "../network/bytes.ts";
import { eventually } from "../network/eventually.ts";
import { declareService, type Network, startNetwork } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MIB = 1024 * 1024;
const folder = makeScratch("controller-returns");
const contexts: Context[] = [];
let network: Network;
let client: Context;

async function load(file: string): Promise<Context> {
  const context = await Context.load(file, { refreshIntervalMs: 500 });
  contexts.push(context);
  return context;
}

/** What the host does with a connection. */
type Serve = (connection: EdgeConnection) => void;
const echo: Serve = (connection) => connection.pipe(connection);
let serve = echo;

const dial = (): Promise<EdgeConnection> => client.dial("steady", { allowHalfOpen: true, timeoutMs: 15_000 });

const online = async (name: string): Promise<boolean> => {
  const { data } = await network.management.listEdgeRouters({ query: { filter: `name = "${name}"` } });
  return data[0]?.isOnline === true;
};

beforeAll(async () => {
  // A dial that waits is told at this level.
  network = await startNetwork(folder, { logLevel: "debug" });
  const service = await declareService(network, { name: "steady" });
  const host = await load(service.hostFile);
  client = await load(service.clientFile);
  const listener = await host.listen("steady", { allowHalfOpen: true });
  listener.on("error", () => {});
  listener.on("connection", (connection) => {
    connection.on("error", () => {});
    serve(connection);
  });
  await eventually("a first echo", async () => {
    await exchange(await dial(), 1, 1000);
    return true;
  });
});
afterAll(async () => {
  await Promise.all(contexts.map((context) => context.close()));
  await network?.stop();
  removeScratch(folder);
});

it("dials made in the moment a controller is back are served", async () => {
  for (let round = 0; round < 3; round++) {
    await network.restartController("SIGKILL");
    await Promise.all([dial(), dial()].map(async (connection, i) => await exchange(await connection, i, MIB / 4)));
  }
});

it("a dial that is there before the host's router is waits for it", async () => {
  const r2 = network.program("r2");
  r2.signal("SIGSTOP");
  let early: Promise<EdgeConnection>;
  try {
    await network.restartController("SIGKILL");
    await eventually("the dialler's router is back", async () => await online("r1"));
    const waits = network.controller.nextLine(/a dial waits for routers and links/);
    early = dial();
    early.catch(() => {});
    await waits;
    expect(await online("r2")).toBe(false);
  } finally {
    r2.signal("SIGCONT");
  }
  await exchange(await early, 2, MIB / 4);
});

it("a half closed circuit outlives a controller that is away for longer than its heartbeats: the rest arrives, and ends", async () => {
  const half = 8 * MIB;
  const request = 3 * MIB;
  const accepted = Promise.withResolvers<EdgeConnection>();
  serve = accepted.resolve;
  const atClient = await dial();
  const atHost = await accepted.promise;

  // The dialler has said everything, and half of the answer is there.
  const asked = receive(atHost);
  const sent = await sendPseudoRandom(atClient, 7, request);
  expect(await asked).toEqual({ length: request, sha256: sent });
  let arrived = 0;
  atClient.on("data", (chunk: Buffer) => {
    arrived += chunk.length;
  });
  const answered = receive(atClient);
  const answer = createHash("sha256");
  const chunks = [...pseudoRandom(9, 2 * half)];
  const say = async (part: readonly Buffer[]): Promise<void> => {
    for (const chunk of part) {
      answer.update(chunk);
      if (!atHost.write(chunk)) await once(atHost, "drain");
    }
  };
  await say(chunks.slice(0, chunks.length / 2));
  await eventually("half of the answer", () => arrived === half);

  // It says nothing more until both routers have given it up, and is then killed.
  const since = performance.now();
  const lost = network.routers.map((router) => router.nextLine(/connection lost/));
  network.controller.signal("SIGSTOP");
  await Promise.all(lost);
  const away = performance.now() - since;
  await network.restartController("SIGKILL");
  await eventually("the routers are back", async () => (await online("r1")) && (await online("r2")));
  console.info(`routers gave the controller up after ${Math.round(away / 1000)} s`);

  await say(chunks.slice(chunks.length / 2));
  atHost.end();
  expect(await answered).toEqual({ length: 2 * half, sha256: answer.digest("hex") });
  await Promise.all([atClient, atHost].map(async (end) => end.destroyed || (await once(end, "close"))));
  expect([atClient.errored, atHost.errored]).toEqual([null, null]);
});
