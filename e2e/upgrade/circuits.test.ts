import { join } from "node:path";
import { pause } from "@sallyport/async";
import type { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { urlOf } from "../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../controller/src/store/testing/test-store.ts";
import { exchange, exchangeSome } from "../network/bytes.ts";
import { Contexts } from "../network/contexts.ts";
import { eventually } from "../network/eventually.ts";
import { hostEcho } from "../network/hosted-echo.ts";
import { administrator, type DeclaredService, declareService, type Network } from "../network/network.ts";
import { type Replica, startReplica, startReplicaAt, startShared } from "../network/replicas.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { ROOT } from "../scenarios/root.ts";
import { lastRelease, releasedProgram } from "./last-release.ts";

const release = lastRelease();
const TREE = join(ROOT, "controller", "src", "main.ts");
/** Between two steps connections are made to replicas that do not change. */
const BETWEEN_MS = 2_000;

const dial = (context: Context) => context.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 });

describe.skipIf(release === undefined)(`a network of version ${release?.version} with two controllers`, () => {
  const folder = makeScratch("upgrade-circuits");
  const contexts = new Contexts();
  let released: string;
  /** What the first controller is started from next. */
  let first: string;
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let network: Network;
  let second: Replica;
  let echo: DeclaredService;
  beforeAll(async () => {
    const found = release ?? { version: "", commit: "" };
    released = releasedProgram(found, "controller");
    first = released;
    const router = releasedProgram(found, "router");
    database = await testDatabase();
    network = await startShared(join(folder, "network"), urlOf(database.connection), {
      programFile: (program) => (program === "router" ? router : first),
    });
    echo = await declareService(network, { name: "echo" });
    await hostEcho(await contexts.load(echo.hostFile), "echo");
    second = await startReplica(network, "c2", released);
  });
  afterAll(async () => {
    await contexts.close();
    await second?.program.stop();
    await network?.stop();
    await database?.drop();
    removeScratch(folder);
  });

  const routersAreOnline = async (port: number): Promise<void> => {
    const api = await administrator(port, network.adminPassword);
    try {
      await eventually("both routers are online", async () => {
        const { data } = await api.listEdgeRouters();
        return data.filter(({ isOnline }) => isOnline).length === 2;
      });
    } finally {
      api.close();
    }
  };
  const runFirst = async (programFile: string): Promise<void> => {
    first = programFile;
    expect(await network.stopProgram("controller")).toBe(0);
    await network.startController();
    await routersAreOnline(network.port);
  };
  const runSecond = async (programFile: string): Promise<void> => {
    expect(await second.program.stop()).toBe(0);
    second = await startReplicaAt(network, { ...second, programFile });
    await routersAreOnline(second.apiPort);
  };

  it("loses no connection, and makes every new one, while its controllers are upgraded and one goes back", async () => {
    const client = await contexts.load(echo.clientFile);
    const open = await eventually("echo can be dialled", () => dial(client), 60_000);
    let made = 0;
    let retried = 0;
    const failures: string[] = [];
    let isStopping = false;
    const once = async (seed: number): Promise<void> => exchange(await dial(client), seed, 10_000);
    const dialling = (async () => {
      for (let seed = 1; !isStopping; seed = (seed % 200) + 1) {
        try {
          await once(seed).catch(() => {
            retried += 1;
            return once(seed);
          });
          made += 1;
        } catch (error) {
          failures.push(String(error));
        }
        await pause(20);
      }
    })();
    try {
      const steps = [
        () => runFirst(TREE),
        () => runSecond(TREE),
        () => runFirst(released),
        () => runSecond(released),
        () => runFirst(TREE),
      ];
      for (const [index, step] of steps.entries()) {
        await pause(BETWEEN_MS);
        await step();
        // The connection that was made before the first step.
        await exchangeSome(open, index + 1, 100_000);
      }
      await pause(BETWEEN_MS);
    } finally {
      isStopping = true;
      await dialling;
    }
    console.log(`${made} new connections, ${retried} with a second try, ${failures.length} not made`);
    expect(failures).toEqual([]);
    expect(made).toBeGreaterThan(20);
    await exchange(open, 9, 100_000);
  });
});
