import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { createClient } from "@sallyport/api";
import type { Context } from "@sallyport/sdk";
import { afterAll, beforeAll, expect, it } from "vitest";
import { urlOf } from "../../../controller/src/store/testing/oldest-server.ts";
import { testDatabase } from "../../../controller/src/store/testing/test-store.ts";
import { exchangeSome } from "../../network/bytes.ts";
import { Contexts } from "../../network/contexts.ts";
import { eventually } from "../../network/eventually.ts";
import { hostEcho } from "../../network/hosted-echo.ts";
import { type DeclaredService, declareService, type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("first-id");
let database: Awaited<ReturnType<typeof testDatabase>>;
let network: Network;
let echo: DeclaredService;
const contexts = new Contexts();

const dial = (context: Context) => context.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 });

beforeAll(async () => {
  database = await testDatabase();
  network = await startNetwork(join(folder, "network"), {
    controllerArgs: ["--database-url", urlOf(database.connection)],
  });
  echo = await declareService(network, { name: "echo" });
  await hostEcho(await contexts.load(echo.hostFile), "echo");
}, 240_000);

afterAll(async () => {
  await contexts.close();
  await network?.stop();
  await database?.drop();
  removeScratch(folder);
}, 180_000);

it("a controller that gets an id has the circuits from before: it lists and ends them", {
  timeout: 240_000,
}, async () => {
  const open = await eventually("echo can be dialled", async () => dial(await contexts.load(echo.clientFile)), 60_000);
  await exchangeSome(open, 1, 100_000);
  await network.stopProgram("controller", "SIGTERM");
  appendFileSync(network.controllerFile, "\nreplica:\n  id: c1\n");
  await network.startController();
  const { data: session } = await network.management.authenticate({
    query: { method: "password" },
    body: { username: "admin", password: network.adminPassword },
  });
  const baseUrl = `https://localhost:${network.port}`;
  const fabric = createClient("fabric", { baseUrl, tls: { rejectUnauthorized: false }, token: session.token });
  const [circuit] = await eventually("the circuit is known", async () => {
    const { data } = await fabric.listCircuits();
    return data.length > 0 && data;
  });
  await exchangeSome(open, 2, 100_000);
  const ended = new Promise((resolve) => open.once("close", resolve));
  await fabric.deleteCircuit({ params: { id: circuit!.id }, body: { immediate: true } });
  await ended;
  fabric.close();
  expect(circuit!.path?.nodes?.length).toBeGreaterThan(0);
});
