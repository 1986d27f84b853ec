import { join } from "node:path";
import type { ApiClient } from "@sallyport/api";
import type { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { urlOf } from "../../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../../controller/src/store/testing/test-store.ts";
import { exchange, exchangeSome } from "../../network/bytes.ts";
import { Contexts } from "../../network/contexts.ts";
import { eventually } from "../../network/eventually.ts";
import { hostEcho } from "../../network/hosted-echo.ts";
import { administrator, type DeclaredService, declareService, type Network } from "../../network/network.ts";
import { type Replica, startReplica, startShared } from "../../network/replicas.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("replicas");
let database: Awaited<ReturnType<typeof testDatabase>>;
let network: Network;
let second: Replica;
let there: ApiClient<"management">;
let echo: DeclaredService;
const contexts = new Contexts();

const dial = (context: Context) => context.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 });

beforeAll(async () => {
  database = await testDatabase();
  network = await startShared(join(folder, "network"), urlOf(database.connection));
  echo = await declareService(network, { name: "echo" });
  await hostEcho(await contexts.load(echo.hostFile), "echo");
  second = await startReplica(network, "c2");
  there = await administrator(second.apiPort, network.adminPassword);
}, 240_000);

afterAll(async () => {
  await contexts.close();
  there?.close();
  await second?.program.stop();
  await network?.stop();
  await database?.drop();
  removeScratch(folder);
}, 180_000);

describe("two controllers on one database", { timeout: 180_000 }, () => {
  it("answer alike, also what was written at the other a moment ago", async () => {
    const here = network.management;
    for (let n = 0; n < 20; n++) {
      const [from, to] = n % 2 === 0 ? [here, there] : [there, here];
      const { data } = await from.createService({ body: { name: `s${n}`, encryptionRequired: true } });
      const read = await to.detailService({ params: { id: data.id } });
      expect(read.data.name).toBe(`s${n}`);
      await to.deleteService({ params: { id: data.id } });
      await expect(from.detailService({ params: { id: data.id } })).rejects.toThrow();
    }
    const ids = async (client: ApiClient<"management">) =>
      (await client.listControllers()).data.map(({ name }) => name);
    expect(await ids(here)).toEqual(["c1", "c2"]);
    expect(await ids(there)).toEqual(["c1", "c2"]);
  });

  it("both have the routers, which were told of the second one", async () => {
    for (const client of [network.management, there]) {
      await eventually("both routers are online", async () => {
        const { data } = await client.listEdgeRouters();
        return data.filter(({ isOnline }) => isOnline).length === 2;
      });
    }
  });

  it("connections outlive the controller that made them, and others are made meanwhile", async () => {
    const client = await contexts.load(echo.clientFile);
    const open = await eventually("echo can be dialled", () => dial(client), 60_000);
    await exchangeSome(open, 1, 100_000);
    await network.stopProgram("controller", "SIGKILL");
    await exchangeSome(open, 2, 100_000);
    await eventually("a new connection", async () => {
      await exchange(await dial(client), 3, 10_000);
      return true;
    });
    await exchangeSome(open, 4, 100_000);
    const { data } = await there.createService({ body: { name: "alone", encryptionRequired: true } });
    await network.startController();
    const here = await administrator(network.port, network.adminPassword);
    expect((await here.detailService({ params: { id: data.id } })).data.name).toBe("alone");
    here.close();
    await exchangeSome(open, 5, 100_000);
    await eventually("a connection with both again", async () => {
      await exchange(await dial(client), 6, 10_000);
      return true;
    });
  });
});
