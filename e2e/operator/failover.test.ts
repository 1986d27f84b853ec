/** Two operators as programs: the one that leads is killed in the middle of its work, and the other one finishes it. */
import { randomInt } from "node:crypto";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import type { Lease } from "../../operator/src/kube/election/elector.ts";
import { KINDS } from "../../operator/src/kube/kinds.ts";
import { conditionOf } from "../../operator/src/kube/status/condition.ts";
import type { FakeApiServer } from "../../operator/src/kube/testing/fake-api-server.ts";
import type { OverlayServiceResource } from "../../operator/src/resources/overlay-service.ts";
import { sample } from "../../operator/src/resources/testing/samples.ts";
import { kindNamed, startApiServer } from "../../operator/src/testing/start-operator.ts";
import { Program } from "../network/program.ts";
import { OperatorScene } from "./operator-scene.ts";

const MAIN = join(import.meta.dirname, "../../operator/src/main.ts");
const SERVICES = 60;
const PATIENT = { timeout: 100_000, interval: 50 };

const scene = OperatorScene.ofThisFile();
let server: FakeApiServer;
const programs: Program[] = [];
beforeAll(async () => {
  server = await startApiServer();
});
afterEach(async () => {
  for (const program of programs.splice(0)) await program.stop();
});
afterAll(async () => {
  await server?.close();
});

function start(name: string): Program {
  const env = { KUBERNETES_SERVICE_HOST: "", POD_NAME: name, POD_NAMESPACE: "default", SALLYPORT_HEALTH_PORT: "0" };
  const program = new Program({ name, command: process.execPath, args: [MAIN, "run", "--server", server.url], env });
  programs.push(program);
  return program;
}

const leader = (): Program | undefined => {
  const lease = server.read<Lease>({ kind: KINDS.Lease, namespace: "default", name: "sallyport-operator" });
  return programs.find(({ name }) => name === lease?.spec?.holderIdentity?.split("_")[0]);
};
const services = (): (OverlayServiceResource | undefined)[] =>
  Array.from({ length: SERVICES }, (_, i) =>
    server.read({ kind: kindNamed("OverlayService"), namespace: "default", name: `s${i}` }),
  ) as (OverlayServiceResource | undefined)[];
const readyOnes = (): number =>
  services().filter((service) => conditionOf(service?.status.conditions, "Ready")?.status === "True").length;

test("nothing is made twice, nothing is forgotten, and nothing is left behind", async () => {
  const external = scene.asExternal(server);
  server.put(kindNamed("Network"), sample("Network", { external }, "main"));
  for (const name of ["operator-a", "operator-b"]) start(name);
  await expect.poll(() => leader() !== undefined, PATIENT).toBe(true);
  const first = leader();
  for (let i = 0; i < SERVICES; i++) server.put(kindNamed("OverlayService"), sample("OverlayService", {}, `s${i}`));
  const enough = randomInt(1, SERVICES / 2);
  await expect.poll(readyOnes, { ...PATIENT, interval: 1 }).toBeGreaterThanOrEqual(enough);
  first?.signal("SIGKILL");
  await first?.exited;
  await expect.poll(readyOnes, PATIENT).toBe(SERVICES);
  expect(leader()?.name).not.toBe(first?.name);

  const found = (await scene.controller.admin("GET", "/services?limit=500")).json.data as {
    id: string;
    name: string;
  }[];
  const ids = Object.fromEntries(found.map(({ name, id }) => [name, id]));
  expect(found).toHaveLength(SERVICES);
  for (const service of services()) expect(service?.status.id).toBe(ids[service?.metadata.name ?? ""]);

  for (let i = 0; i < SERVICES; i++)
    server.remove({ kind: kindNamed("OverlayService"), namespace: "default", name: `s${i}` });
  await expect.poll(() => services().filter((service) => service !== undefined).length, PATIENT).toBe(0);
  expect((await scene.controller.admin("GET", "/services?limit=500")).json.data).toEqual([]);
});
