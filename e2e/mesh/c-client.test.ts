import { afterAll, beforeAll, expect, it } from "vitest";
import type { TestConnection } from "../../router/src/testing/test-sdk.ts";
import { eventually } from "../network/eventually.ts";
import { type Mesh, startMesh } from "../network/mesh.ts";
import { type DeclaredService, declareService } from "../network/network.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { CClient } from "./c-client.ts";

const folder = makeScratch("c-client");
let mesh: Mesh;
let service: DeclaredService;
let host: CClient;
let client: CClient;
let stream: TestConnection;

/** A message and its echo, over a stream that must be there. */
async function echo(connection: TestConnection): Promise<void> {
  const before = connection.received;
  connection.send(Buffer.from("hello"));
  await Promise.race([
    connection.whenReceived(before + 5),
    connection.whenClosed().then((reason) => Promise.reject(new Error(`the stream was closed: ${reason}`))),
    new Promise((_, reject) => connection.sdk.channel.onClose(() => reject(new Error("the router was closed")))),
  ]);
}

const routersSeen = async (isOnline: boolean): Promise<boolean> => {
  const { data } = await mesh.network.management.listEdgeRouters();
  return data.length === 2 && data.every((router) => router.isOnline === isOnline);
};

beforeAll(async () => {
  mesh = await startMesh(folder, { pairs: [["r1", "r2"]], withControlWay: true });
  service = await declareService(mesh.network, { name: "steady", isEncrypted: false });
  host = await CClient.load(service.hostFile);
  client = await CClient.load(service.clientFile);
  await host.host(service.id);
  stream = await eventually("a first dial", () => client.dial(service.id));
  await echo(stream);
});
afterAll(async () => {
  client?.close();
  host?.close();
  await mesh?.stop();
  removeScratch(folder);
});

it("keeps its stream while the control channel of every router is cut", async () => {
  mesh.controlWay?.reset();
  await eventually("both routers are offline", () => routersSeen(false));
  await echo(stream);
  mesh.controlWay?.heal();
  await eventually("both routers are back", () => routersSeen(true), 60_000);
  await echo(stream);
  expect([client.removed, host.removed]).toEqual([[], []]);
});

it("keeps its stream over restarts of the controller, whatever its first polls find", async () => {
  for (let round = 0; round < 3; round++) {
    await mesh.network.restartController("SIGKILL");
    await eventually("both routers are back", () => routersSeen(true), 60_000);
    await echo(stream);
  }
  expect([client.removed, host.removed]).toEqual([[], []]);
});

it("hosts again after its only router was away", async () => {
  await mesh.network.restartRouter("r2", "SIGKILL");
  const again = await eventually("a dial is served again", () => client.dial(service.id), 60_000);
  await echo(again);
  expect([client.removed, host.removed]).toEqual([[], []]);
});
