import { join } from "node:path";
import type { ApiClient } from "@sallyport/api";
import { afterAll, beforeAll, expect, it } from "vitest";
import { urlOf } from "../../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../../controller/src/store/testing/test-store.ts";
import { exchangeSome } from "../../network/bytes.ts";
import { Contexts } from "../../network/contexts.ts";
import { eventually } from "../../network/eventually.ts";
import { hostEcho } from "../../network/hosted-echo.ts";
import { administrator, declareService, fabricAdministrator, type Network } from "../../network/network.ts";
import { type Replica, startReplica, startShared } from "../../network/replicas.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { TcpWay } from "../../network/tcp-way.ts";

const folder = makeScratch("reports");
let database: Awaited<ReturnType<typeof testDatabase>>;
let way: TcpWay;
let network: Network;
let second: Replica;
let there: ApiClient<"management">;
let fabric: ApiClient<"fabric">;
const contexts = new Contexts();

beforeAll(async () => {
  database = await testDatabase();
  network = await startShared(join(folder, "network"), urlOf(database.connection), {
    ctrlWay: async (port) => {
      way = await TcpWay.start(port);
      return way.port;
    },
  });
  fabric = await fabricAdministrator(network.port, network.adminPassword);
}, 240_000);

afterAll(async () => {
  await contexts.close();
  there?.close();
  fabric?.close();
  await second?.program.stop();
  await network?.stop();
  await way?.close();
  await database?.drop();
  removeScratch(folder);
}, 180_000);

it("what a router reports while its channel to the circuit's controller is cut reaches that one by way of another", async () => {
  const { hostFile, clientFile } = await declareService(network, { name: "echo" });
  await hostEcho(await contexts.load(hostFile), "echo");
  const client = await contexts.load(clientFile);
  const dial = () => client.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 });
  const [first, other] = await eventually(
    "echo can be dialled twice",
    async () => [await dial(), await dial()] as const,
    60_000,
  );
  for (const connection of [first, other]) await exchangeSome(connection, 1, 1_000);
  // Only now may another controller be asked for circuits.
  second = await startReplica(network, "c2");
  there = await administrator(second.apiPort, network.adminPassword);
  await eventually("both routers are at the second controller", async () => {
    const { data } = await there.listEdgeRouters();
    return data.filter(({ isOnline }) => isOnline).length === 2;
  });
  const circuits = async () => (await fabric.listCircuits()).data.map(({ id }) => id);
  const before = await circuits();
  expect(before).toHaveLength(2);
  way.reset();
  await eventually("the first controller has lost its routers", async () => {
    const { data } = await network.management.listEdgeRouters();
    return data.every(({ isOnline }) => !isOnline);
  });
  first.destroy();
  // Without the report it would keep both until it gives up the routers, and then lose both.
  await eventually("the circuit has ended, and the other one goes on", async () => (await circuits()).length === 1);
  await exchangeSome(other, 2, 1_000);
  way.heal();
  await eventually("the first controller has its routers again", async () => {
    const { data } = await network.management.listEdgeRouters();
    return data.filter(({ isOnline }) => isOnline).length === 2;
  });
  expect(await circuits()).toHaveLength(1);
  await exchangeSome(other, 3, 1_000);
}, 180_000);
