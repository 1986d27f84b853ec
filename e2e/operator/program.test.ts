/** The program `sallyport-operator` as its users start it: settings, probes, figures, election among several, a clean end. */
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { clusterAt } from "../../operator/src/kube/client/cluster.ts";
import { HttpKubeClient } from "../../operator/src/kube/client/http-client.ts";
import type { Lease } from "../../operator/src/kube/election/elector.ts";
import { KINDS, type KubeObject } from "../../operator/src/kube/kinds.ts";
import { FakeApiServer } from "../../operator/src/kube/testing/fake-api-server.ts";
import { kindNamed, startApiServer } from "../../operator/src/testing/start-operator.ts";
import { customResourceDefinition } from "../../packages/resources/src/crd/crd.ts";
import { KINDS as RESOURCES } from "../../packages/resources/src/group.ts";
import { DEFINITIONS } from "../../packages/resources/src/kinds/definitions.ts";
import { sample } from "../../packages/resources/src/kinds/testing/samples.ts";
import { Program } from "../network/program.ts";

const MAIN = join(import.meta.dirname, "../../operator/src/main.ts");
const ending: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0).toReversed()) await end();
});

async function apiServer(): Promise<FakeApiServer> {
  const server = await startApiServer();
  ending.push(() => server.close());
  return server;
}

let count = 0;

interface Running {
  readonly program: Program;
  get(page: string): Promise<{ status: number; text: string }>;
}

function begin(args: readonly string[], env: Readonly<Record<string, string>> = {}): Program {
  const name = `operator-${count++}`;
  const program = new Program({
    name,
    command: process.execPath,
    args: [MAIN, ...args],
    env: {
      KUBERNETES_SERVICE_HOST: "",
      KUBECONFIG: "",
      POD_NAME: name,
      POD_NAMESPACE: "default",
      SALLYPORT_HEALTH_PORT: "0",
      ...env,
    },
  });
  ending.push(() => program.stop());
  return program;
}

async function run(server: FakeApiServer, env: Readonly<Record<string, string>> = {}): Promise<Running> {
  const program = begin(["run", "--server", server.url], env);
  const { healthPort } = JSON.parse(await program.line(/the operator is running/)) as { healthPort: number };
  return {
    program,
    async get(page) {
      const answer = await fetch(`http://127.0.0.1:${healthPort}${page}`);
      return { status: answer.status, text: await answer.text() };
    },
  };
}

const PATIENT = { timeout: 60_000, interval: 50 };
const leaseOf = (server: FakeApiServer) =>
  server.read<Lease>({ kind: KINDS.Lease, namespace: "default", name: "sallyport-operator" });
const holderOf = (server: FakeApiServer) => leaseOf(server)?.spec?.holderIdentity?.split("_")[0];

test("works, serves its probes and metrics, and ends cleanly: the Lease is released", async () => {
  const server = await apiServer();
  const { program, get } = await run(server);
  await expect.poll(async () => (await get("/readyz")).status, PATIENT).toBe(200);
  expect(await get("/healthz")).toMatchObject({ status: 200, text: expect.stringContaining("[+]lease ok") });
  await expect.poll(() => holderOf(server), PATIENT).toBe(program.name);
  const user = new HttpKubeClient(clusterAt(server.url), { kinds: RESOURCES, manager: "kubectl" });
  ending.push(() => user.close());
  await user.apply(sample("OverlayService") as unknown as KubeObject);
  const ref = { kind: kindNamed("OverlayService"), namespace: "default", name: "sample" };
  await expect.poll(() => JSON.stringify(server.read(ref)), PATIENT).toContain("NetworkNotFound");
  // It counts a look once the status is written.
  await expect
    .poll(async () => (await get("/metrics")).text, PATIENT)
    .toMatch(/controller_runtime_reconcile_total\{controller="overlayservice",result="requeue_after"\} [1-9]/);
  const { text } = await get("/metrics");
  expect(text).toContain('leader_election_master_status{name="sallyport-operator"} 1');
  expect(text).toContain(
    'sallyport_operator_resource_ready{kind="OverlayService",namespace="default",name="sample"} 0',
  );
  expect(text).toContain("process_resident_memory_bytes");
  program.signal("SIGTERM");
  expect(await program.exited).toBe(0);
  expect(leaseOf(server)?.spec?.holderIdentity).toBe("");
  await expect.poll(() => server.watches).toEqual([]);
});

test("of two the second one is ready, waits, and works when the first one ends", async () => {
  const server = await apiServer();
  const first = await run(server);
  await expect.poll(() => holderOf(server), PATIENT).toBe(first.program.name);
  const second = await run(server);
  await expect.poll(async () => (await second.get("/readyz")).status, PATIENT).toBe(200);
  expect((await second.get("/metrics")).text).toContain('leader_election_master_status{name="sallyport-operator"} 0');
  expect(holderOf(server)).toBe(first.program.name);
  first.program.signal("SIGTERM");
  await expect.poll(() => holderOf(server), PATIENT).toBe(second.program.name);
});

test("whose Lease another one takes ends, and starts again", async () => {
  const server = await apiServer();
  const { program } = await run(server);
  await expect.poll(() => holderOf(server), PATIENT).toBe(program.name);
  const ref = { kind: KINDS.Lease, namespace: "default", name: "sallyport-operator" };
  server.change(ref, { spec: { holderIdentity: "another-operator", leaseDurationSeconds: 60 } });
  expect(await program.exited).toBe(1);
  expect(program.tail.join("\n")).toContain("another process leads");
});

test("waits for CRDs that are missing or too old, and says which", async () => {
  const server = await FakeApiServer.start();
  ending.push(() => server.close());
  server.put(KINDS.Namespace, { apiVersion: "v1", kind: "Namespace", metadata: { name: "kube-system" } });
  const { get } = await run(server);
  await expect
    .poll(async () => (await get("/readyz/crds")).text, PATIENT)
    .toContain("networks.sallyport.dev is missing");
  for (const kind of DEFINITIONS) server.put(KINDS.CustomResourceDefinition, customResourceDefinition(kind));
  const name = "edgerouters.sallyport.dev";
  server.change(
    { kind: KINDS.CustomResourceDefinition, name },
    { metadata: { annotations: { "sallyport.dev/schema-version": "0" } } },
  );
  await expect.poll(async () => (await get("/readyz/crds")).text, PATIENT).toContain(`${name} has schema version 0`);
  expect((await get("/healthz")).status).toBe(200);
  for (const kind of DEFINITIONS) server.put(KINDS.CustomResourceDefinition, customResourceDefinition(kind));
  await expect.poll(async () => (await get("/readyz")).status, PATIENT).toBe(200);
});

describe("a right that is missing", () => {
  test("to list a kind keeps it from being ready, and is named", async () => {
    const server = await apiServer();
    const fault = {
      kind: "status",
      code: 403,
      reason: "Forbidden",
      message: 'cannot list resource "authpolicies"',
    } as const;
    const allow = server.inject({ path: /\/authpolicies\?/, times: 100_000, fault });
    const { get } = await run(server);
    await expect
      .poll(async () => (await get("/readyz/watches")).text, PATIENT)
      .toContain('cannot list resource "authpolicies"');
    allow();
    await expect.poll(async () => (await get("/readyz")).status, PATIENT).toBe(200);
  });

  test("to see which cluster this is can be made up for by a setting", async () => {
    const server = await apiServer();
    const fault = { kind: "status", code: 403, reason: "Forbidden", message: "no" } as const;
    server.inject({ path: "/namespaces/kube-system", times: 100_000, fault });
    server.inject({ path: "/customresourcedefinitions/", times: 100_000, fault });
    const { get, program } = await run(server);
    await expect.poll(async () => (await get("/readyz/crds")).text, PATIENT).toContain("SALLYPORT_CLUSTER_ID");
    await program.stop();
    const told = await run(server, { SALLYPORT_CLUSTER_ID: "blue", SALLYPORT_NAMESPACES: "default" });
    await expect.poll(async () => (await told.get("/readyz")).status, PATIENT).toBe(200);
  });
});

describe("a command line", () => {
  test.each([
    [["--help"], 0, /usage: sallyport-operator run/],
    [["--version"], 0, /^sallyport-operator \d+\.\d+\.\d+/],
    [[], 2, /a command is missing: run/],
    [["run", "--kubeconfig", "/nowhere/config"], 1, /\/nowhere\/config/],
  ])("%s ends with %i", async (args, code, said) => {
    const program = begin(args);
    expect(await program.exited).toBe(code);
    expect(program.tail.join("\n")).toMatch(said);
  });
});
