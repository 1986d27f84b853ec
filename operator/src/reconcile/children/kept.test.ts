import { expect, test } from "vitest";
import { KINDS, type KubeObject } from "../../kube/kinds.ts";
import { serverPerTest } from "../../kube/testing/server-per-test.ts";
import { Admissions } from "./admissions.ts";
import { markKept } from "./kept.ts";

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

test("one that went meanwhile is no trouble, and another of its name is left alone", async () => {
  const found = put({ "app.kubernetes.io/instance": "main" });
  const context = contextOf();
  api.server.remove(REF);
  await markKept(KINDS.Secret, found, OWNER, context);
  put({ others: "x" });
  await markKept(KINDS.Secret, found, OWNER, context);
  expect((await api.client.get(REF))?.metadata.labels).toEqual({ others: "x" });
});
