/** Operators as programs: the one that leads is killed in the middle of its work, and another one finishes it. */
import { randomInt } from "node:crypto";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { type Condition, conditionOf } from "../../operator/src/kube/conditions.ts";
import type { Lease } from "../../operator/src/kube/election/elector.ts";
import { KINDS, type KubeObject } from "../../operator/src/kube/kinds.ts";
import type { FakeApiServer } from "../../operator/src/kube/testing/fake-api-server.ts";
import { kindNamed, startApiServer } from "../../operator/src/testing/start-operator.ts";
import { sample } from "../../packages/resources/src/kinds/testing/samples.ts";
import { Program } from "../network/program.ts";
import { ENTITY_PATHS } from "./entity-paths.ts";
import { OperatorScene } from "./operator-scene.ts";

const MAIN = join(import.meta.dirname, "../../operator/src/main.ts");
const COUNTS = { ServiceConfig: 10, OverlayService: 30, Identity: 15, ServicePolicy: 5 } as const;
type Kind = keyof typeof COUNTS;
const DECLARED = (Object.keys(COUNTS) as Kind[]).flatMap((kind) =>
  Array.from({ length: COUNTS[kind] }, (_, i) => ({ kind, name: `failover-${kind.toLowerCase()}-${i}` })),
);
const PATIENT = { timeout: 100_000, interval: 50 };

interface Found extends KubeObject {
  readonly status?: { readonly id?: string; readonly conditions?: readonly Condition[] };
}

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
  return programs.find(({ name, isRunning }) => isRunning && name === lease?.spec?.holderIdentity?.split("_")[0]);
};
/** Kills the one that leads once enough of its work is done. */
async function killWhen(done: () => number, enough: number): Promise<void> {
  await expect.poll(done, { ...PATIENT, interval: 1 }).toBeGreaterThanOrEqual(enough);
  const killed = leader();
  killed?.signal("SIGKILL");
  await killed?.exited;
  await expect.poll(() => leader() !== undefined, PATIENT).toBe(true);
}
const refTo = ({ kind, name }: (typeof DECLARED)[number]) => ({ kind: kindNamed(kind), namespace: "default", name });
const found = () => DECLARED.flatMap((each) => server.read<Found>(refTo(each)) ?? []);
const ready = () => found().filter(({ status }) => conditionOf(status?.conditions, "Ready")?.status === "True");
/** By name; a name that is there twice is an error. */
async function entities(): Promise<Record<string, string>> {
  const filter = encodeURIComponent('name contains "failover-" limit 500');
  const kinds = (Object.keys(COUNTS) as Kind[]).map(async (kind) => {
    const { json } = await scene.controller.admin("GET", `/${ENTITY_PATHS[kind]}?filter=${filter}`);
    return json.data as { readonly id: string; readonly name: string }[];
  });
  const all = (await Promise.all(kinds)).flat();
  const byName = Object.fromEntries(all.map(({ id, name }) => [name, id]));
  expect(Object.keys(byName)).toHaveLength(all.length);
  return byName;
}

test("nothing is made twice, nothing is forgotten, and nothing is left behind", { timeout: 240_000 }, async () => {
  const external = scene.asExternal(server);
  server.put(kindNamed("Network"), sample("Network", { external }, "main"));
  for (const name of ["operator-a", "operator-b", "operator-c"]) start(name);
  await expect.poll(() => leader() !== undefined, PATIENT).toBe(true);
  for (const { kind, name } of DECLARED) {
    const configRefs = [{ name: "failover-serviceconfig-0" }];
    server.put(kindNamed(kind), sample(kind, kind === "OverlayService" ? { configRefs } : {}, name));
  }
  await killWhen(() => ready().length, randomInt(1, DECLARED.length / 2));
  await expect.poll(() => ready().length, PATIENT).toBe(DECLARED.length);
  expect(await entities()).toEqual(
    Object.fromEntries(found().map(({ metadata, status }) => [metadata.name, status?.id])),
  );

  for (const each of DECLARED) server.remove(refTo(each));
  await killWhen(() => DECLARED.length - found().length, randomInt(1, DECLARED.length / 2));
  await expect.poll(() => found().length, PATIENT).toBe(0);
  expect(await entities()).toEqual({});
});
