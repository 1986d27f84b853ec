import { expect, test } from "vitest";
import type { KubeClient } from "../kube/client/client.ts";
import { errorOfAnswer, KubeError } from "../kube/client/errors.ts";
import { KINDS, type KubeObject } from "../kube/kinds.ts";
import { serverPerTest } from "../kube/testing/server-per-test.ts";
import { dryRun, markKept } from "./apply.ts";
import { Admissions } from "./intent.ts";

const object = { apiVersion: "v1", kind: "Service", metadata: { name: "a", namespace: "edge" } };
const refusal = (code: number, message: string): KubeError =>
  errorOfAnswer("PATCH /x", code, { kind: "Status", message, code });

// biome-ignore format: a table
test.each<[string, Error | undefined, boolean]>([
  ["nothing", undefined, false],
  ["a wrong field", refusal(422, "spec.ports: Invalid value"), true],
  ["a quota", refusal(403, 'services "a" is forbidden: exceeded quota: small'), true],
  ["a webhook", refusal(400, 'admission webhook "v.example" denied the request: no'), true],
  ["a webhook that has no dry runs", refusal(400, 'admission webhook "v.example" does not support dry run'), false],
  ["a right that lacks", refusal(403, 'services "a" is forbidden: User "o" cannot patch resource "services"'), false],
  ["a server that is away", new KubeError({ status: 0, reason: "Unreachable", message: "away" }), false],
  ["a fault of the program", new TypeError("x"), true],
])("what the server objects to is thrown, and nothing that a write would not have to say: %s", async (_what, error, isThrown) => {
  const asked: unknown[] = [];
  const apply = async (_object: unknown, { dryRun }: { dryRun: boolean }) => {
    asked.push(dryRun);
    if (error !== undefined) throw error;
  };
  const client = { apply } as unknown as KubeClient;
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const tried = dryRun(object, { client, log, signal: new AbortController().signal });
  if (isThrown) await expect(tried).rejects.toBe(error);
  else await tried;
  expect(asked).toEqual([true]);
});

const api = serverPerTest();

const OWNER = { kind: "Network", name: "main" };
const REF = { kind: KINDS.Secret, namespace: "edge", name: "main-controller-key" };
const contextOf = () => ({ client: api.client, signal: new AbortController().signal, admissions: new Admissions() });
const put = (labels: Record<string, string>) =>
  api.server.put(KINDS.Secret, {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: REF.name, namespace: "edge", labels },
    data: { "secret.key": "a2V5" },
  });

test("an object of an earlier version loses the label that others go by, once, and nothing of its content", async () => {
  const found = put({ "app.kubernetes.io/instance": "main", "sallyport.dev/owner-kind": "Network", mine: "x" });
  const context = contextOf();
  await markKept(KINDS.Secret, found, OWNER, context);
  const marked = await api.client.get<KubeObject & { data: object }>(REF);
  expect(marked?.data).toEqual({ "secret.key": "a2V5" });
  expect(marked?.metadata.labels).toEqual({
    "app.kubernetes.io/managed-by": "sallyport",
    "sallyport.dev/owner-kind": "Network",
    "sallyport.dev/owner-name": "main",
    mine: "x",
  });
  expect(marked?.metadata.annotations).toMatchObject({ "argocd.argoproj.io/sync-options": "Prune=false,Delete=false" });

  const before = api.server.requests.length;
  if (marked !== undefined) await markKept(KINDS.Secret, marked, OWNER, context);
  expect(api.server.requests.length).toBe(before);
});

test("one that went meanwhile is no failure, and another of its name is left alone", async () => {
  const found = put({ "app.kubernetes.io/instance": "main" });
  const context = contextOf();
  api.server.remove(REF);
  await markKept(KINDS.Secret, found, OWNER, context);
  put({ others: "x" });
  await markKept(KINDS.Secret, found, OWNER, context);
  expect((await api.client.get(REF))?.metadata.labels).toEqual({ others: "x" });
});
