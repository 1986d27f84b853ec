import { KINDS as RESOURCES } from "@sallyport/resources";
import { describe, expect, onTestFinished, test } from "vitest";
import type { KubeClient } from "../kube/client/client.ts";
import { errorOfAnswer } from "../kube/client/errors.ts";
import { type Check, HealthServer } from "../kube/health.ts";
import type { KubeObject, ObjectRef, ResourceKind } from "../kube/kinds.ts";
import { type CheckSettings, checkInstallation, checkUninstall } from "./check.ts";

interface Cluster {
  readonly crds?: "current" | "old" | "forbidden";
  /** `verb resource namespace` of what is not allowed. */
  readonly denied?: readonly string[];
  readonly objects?: readonly KubeObject[];
  /** Kinds that the API server does not know. */
  readonly unknown?: readonly string[];
}

function clientOf({ crds = "current", denied = [], objects = [], unknown = [] }: Cluster) {
  const asked: string[] = [];
  const client = {
    get: async ({ name }: ObjectRef) => {
      if (crds === "forbidden") throw errorOfAnswer(`GET ${name}`, 403, "no");
      const annotations = { "sallyport.dev/schema-version": crds === "old" ? "0" : "1" };
      return { apiVersion: "v1", kind: "CustomResourceDefinition", metadata: { name, annotations } };
    },
    list: async (kind: ResourceKind, namespace?: string) => {
      if (unknown.includes(kind.kind)) throw errorOfAnswer(`GET ${kind.plural}`, 404, "no such page");
      const items = objects.filter(
        (each) => each.kind === kind.kind && [undefined, each.metadata.namespace].includes(namespace),
      );
      return { items, resourceVersion: "1" };
    },
    create: async (review: KubeObject & { spec: { resourceAttributes: Record<string, string> } }) => {
      const { resource, subresource, verb, namespace } = review.spec.resourceAttributes;
      const right = `${verb} ${[resource, subresource].filter(Boolean).join("/")} ${namespace}`;
      asked.push(right);
      return { ...review, status: { allowed: !denied.includes(right) } };
    },
  } as unknown as Pick<KubeClient, "get" | "list" | "create">;
  return { client, asked };
}

async function checking(cluster: Cluster, settings: Partial<CheckSettings> = {}, limitMs = 30_000) {
  const { client, asked } = clientOf(cluster);
  const said: string[] = [];
  const all = { namespaces: [], namespace: "system", operator: undefined, timeoutMs: limitMs, ...settings };
  const status = await checkInstallation(client, all, (line) => said.push(line));
  return { status, said, asked };
}

async function pod(crds: Check): Promise<URL> {
  const server = await HealthServer.listen({ host: "127.0.0.1", port: 0, live: {}, ready: { crds } });
  onTestFinished(() => server.close());
  return new URL(`http://127.0.0.1:${server.port}`);
}

const object = (kind: string, namespace: string, name: string): KubeObject => ({
  apiVersion: "sallyport.dev/v1alpha1",
  kind,
  metadata: { namespace, name },
});

describe("an installation", () => {
  test("is good with all kinds, all rights and a pod that is ready", async () => {
    const { status, said, asked } = await checking({}, { operator: await pod(() => undefined) });
    expect(said).toEqual([
      "[+]kinds ok: all 10 kinds of sallyport.dev/v1alpha1 are installed",
      `[+]rights ok: all ${asked.length} rights are given in all namespaces`,
      "[+]operator ok: 1 pods are ready (127.0.0.1)",
    ]);
    expect(status).toBe(0);
    // Some of what the operator does: on our kinds, on their subresources, on children, on its own Lease.
    for (const right of ["list networks ", "patch networks/status ", "create secrets ", "update leases system"])
      expect(asked).toContain(right);
    expect(new Set(asked).size).toBe(asked.length);
  });

  test("asks for rights in each of its namespaces, and for kinds there when it may not read their definitions", async () => {
    const { status, said, asked } = await checking({ crds: "forbidden" }, { namespaces: ["a", "b"] });
    expect(status).toBe(0);
    expect(said[0]).toBe(
      "[+]kinds ok: all 10 kinds of sallyport.dev/v1alpha1 are served; their schema version may not be read",
    );
    expect(asked.filter((right) => right.startsWith("list networks "))).toEqual(["list networks a", "list networks b"]);
  });

  // biome-ignore format: a table
  test.each<[string, Cluster, Partial<CheckSettings>, string]>([
    ["old definitions", { crds: "old" }, {}, "[-]kinds failed: the CustomResourceDefinition networks.sallyport.dev has schema version 0, this operator needs 1: apply the folder crds of this version"],
    ["a kind that is not served", { crds: "forbidden", unknown: ["Identity"] }, { namespaces: ["a"] }, "[-]kinds failed: the kind Identity of sallyport.dev/v1alpha1 is not served: an administrator has to apply the CustomResourceDefinitions of this version"],
    ["a right that is missing", { denied: ["create secrets b", "patch networks/status b"] }, { namespaces: ["a", "b"] }, "[-]rights failed: may not patch networks/status.sallyport.dev in the namespace b, create secrets in the namespace b: look at the roles and bindings of the service account"],
    ["rights on everything", { denied: ["list secrets "] }, {}, "[-]rights failed: may not list secrets in all namespaces: look at the roles and bindings of the service account"],
    ["the Lease", { denied: ["update leases system"] }, {}, "[-]rights failed: may not update leases.coordination.k8s.io in the namespace system: look at the roles and bindings of the service account"],
  ])("is bad: %s", async (_, cluster, settings, line) => {
    const { status, said } = await checking(cluster, settings);
    expect(said).toContain(line);
    expect(status).toBe(1);
  });

  test("is waited for until its pod is ready", async () => {
    let asked = 0;
    const operator = await pod(() => (++asked > 1 ? undefined : "not yet"));
    expect((await checking({}, { operator })).status).toBe(0);
    expect(asked).toBe(2);
  });

  test("is bad when the time is over, with the pod's own words", async () => {
    const operator = await pod(() => "the CustomResourceDefinition x is missing");
    const { status, said } = await checking({}, { operator }, 300);
    expect(status).toBe(1);
    expect(said.at(-1)).toBe(
      "[-]operator failed: the pod at 127.0.0.1 is not ready: [-]crds failed: the CustomResourceDefinition x is missing, and the time is over",
    );
  });

  test("is bad when no pod answers", async () => {
    const { said } = await checking({}, { operator: new URL("http://127.0.0.1:1") }, 300);
    expect(said.at(-1)).toMatch(
      /^\[-\]operator failed: the pod at 127\.0\.0\.1 does not answer: .+, and the time is over$/,
    );
    const { said: more } = await checking({}, { operator: new URL("http://nobody.invalid:1") }, 300);
    expect(more.at(-1)).toMatch(
      /^\[-\]operator failed: nobody\.invalid could not be looked up: .+, and the time is over$/,
    );
  });
});

describe("an uninstall", () => {
  async function uninstalling(cluster: Cluster, namespaces: readonly string[] = []) {
    const said: string[] = [];
    const status = await checkUninstall(clientOf(cluster).client, { namespaces }, (line) => said.push(line));
    return { status, said };
  }

  test("is good when nothing is left, or the kinds are gone as well", async () => {
    const unknown = RESOURCES.map(({ kind }) => kind);
    for (const cluster of [{}, { unknown }])
      expect(await uninstalling(cluster)).toEqual({ status: 0, said: ["no resources are left"] });
  });

  test("is bad while resources are left in its namespaces, which it names", async () => {
    const objects = [object("Network", "a", "main"), object("Identity", "b", "me"), object("Identity", "c", "you")];
    const all = await uninstalling({ objects });
    expect(all.status).toBe(1);
    expect(all.said[0]).toBe(
      "3 resources are left, which no operator would clean up: Network a/main, Identity b/me, Identity c/you",
    );
    expect(all.said).toContain("    kubectl delete overlay --all --all-namespaces");
    const some = await uninstalling({ objects }, ["a", "b"]);
    expect(some.said[0]).toMatch(/^2 resources are left, .*: Network a\/main, Identity b\/me$/);
    expect(some.said).toContain("    kubectl delete overlay --all --namespace b");
    expect(await uninstalling({ objects }, ["d"])).toMatchObject({ status: 0 });
  });

  test("names some of many", async () => {
    const objects = Array.from({ length: 50 }, (_, n) => object("Identity", "a", `i${n}`));
    const [line] = (await uninstalling({ objects })).said;
    expect(line).toMatch(/^50 resources are left, .*, Identity a\/i19, and 30 more$/);
  });
});
