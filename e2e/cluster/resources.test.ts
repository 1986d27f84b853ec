/** The resources of the operator against a real API server: what it accepts, refuses, explains and shows. */
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { customResourceDefinition, objectSchema } from "../../packages/resources/src/crd/crd.ts";
import { API_VERSION, GROUP, VERSION } from "../../packages/resources/src/group.ts";
import type { KindDefinition } from "../../packages/resources/src/kind-definition.ts";
import { DEFINITIONS } from "../../packages/resources/src/kinds/definitions.ts";
import { REFUSALS } from "../../packages/resources/src/kinds/testing/refusals.ts";
import { type Manifest, sample } from "../../packages/resources/src/kinds/testing/samples.ts";
import { admit } from "../../packages/resources/src/testing/admit.ts";
import { KubeApi } from "./box/kube-api.ts";
import { Cluster } from "./cluster.ts";
import { kindsServed } from "./kinds-served.ts";
import { hasCluster } from "./tools.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const STRICT = "fieldValidation=Strict";

const kindOf = (name: string): KindDefinition => {
  const kind = DEFINITIONS.find((each) => each.kind === name);
  if (kind === undefined) throw new Error(`no kind ${name}`);
  return kind;
};
const collection = (kind: string, namespace = "default"): string =>
  `/apis/${API_VERSION}/namespaces/${namespace}/${kindOf(kind).plural}`;
const named = (manifest: Manifest, name: string): Manifest => ({
  ...manifest,
  metadata: { ...manifest.metadata, name },
});

interface Stored extends Manifest {
  readonly metadata: Manifest["metadata"] & { readonly resourceVersion: string; readonly generation: number };
}
interface Answer extends Stored {
  readonly message?: string;
  readonly details?: { readonly causes?: readonly { readonly field?: string; readonly message: string }[] };
}

describe.skipIf(!hasCluster)("the resources in a real API server", () => {
  let cluster: Cluster;
  let api: KubeApi;

  beforeAll(async () => {
    cluster = await Cluster.start({ nodes: 0 });
    api = KubeApi.fromKubeconfig(cluster.kubeconfig);
    await cluster.kubectl(["apply", "--server-side", "-k", join(ROOT, "crds")]);
    await kindsServed(cluster);
  });
  afterAll(async () => {
    api?.close();
    await cluster?.close();
  });

  test.each(DEFINITIONS.map(({ kind }) => kind))("%s is accepted as it is generated, and structural", async (kind) => {
    const { plural } = kindOf(kind);
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${plural}.${GROUP}`;
    const { body } = await api.call<{
      spec: unknown;
      status: { conditions: { type: string; status: string; message: string }[]; storedVersions: string[] };
    }>("GET", path);
    const conditions = Object.fromEntries(body.status.conditions.map(({ type, status }) => [type, status]));
    expect(conditions).toMatchObject({ Established: "True", NamesAccepted: "True" });
    expect(conditions.NonStructuralSchema ?? "False").toBe("False");
    expect(body.status.storedVersions).toEqual([VERSION]);
    expect(customResourceDefinition(kindOf(kind))).toBeDefined();
  });

  test.each(DEFINITIONS.map(({ kind }) => kind))(
    "the smallest %s is stored with the defaults that we think",
    async (kind) => {
      const { body, status } = await api.call<Answer>("POST", `${collection(kind)}?dryRun=All&${STRICT}`, sample(kind));
      expect(body.message).toBeUndefined();
      expect(status).toBe(201);
      const { metadata: _, ...ours } = admit(kindOf(kind), sample(kind)).object;
      expect(body).toMatchObject(ours);
      expect(body.spec).toEqual(ours.spec);
    },
  );

  test.each(REFUSALS.map((refusal, i) => ({ ...refusal, i })))(
    "$i: $kind $at refuses by $rule: $message",
    async ({ i, kind, rule, message, object, previous }) => {
      // A name that is refused itself is kept.
      const name = object.metadata.name === "sample" ? `refused-${i}` : object.metadata.name;
      let answer: { status: number; body: Answer };
      if (previous === undefined) {
        answer = await api.call<Answer>("POST", `${collection(kind)}?dryRun=All&${STRICT}`, named(object, name));
      } else {
        const before = await api.call<Answer>("POST", `${collection(kind)}?${STRICT}`, named(previous, name));
        expect(before.body.message).toBeUndefined();
        const changed = { ...object, metadata: before.body.metadata };
        answer = await api.call<Answer>("PUT", `${collection(kind)}/${name}?dryRun=All&${STRICT}`, changed);
      }
      expect(answer.body.message).toContain(message);
      expect(answer.status).toBe(rule === "unknown" ? 400 : 422);
      // It is the words of this rule that the answer gives, not those of another that happens to be broken, too.
      expect(otherCauses(answer.body, message)).toEqual([]);
    },
  );

  test.each(DEFINITIONS.map(({ kind }) => kind))("kubectl explains every field of %s", async (kind) => {
    const { plural, description } = kindOf(kind);
    const whole = await cluster.kubectl(["explain", plural]);
    expect(whole).toContain(`GROUP:      ${GROUP}\nKIND:       ${kind}\nVERSION:    ${VERSION}`);
    expect(words(whole)).toContain(words(description));
    for (const part of ["spec", "status"] as const) {
      const text = await cluster.kubectl(["explain", `${plural}.${part}`]);
      const properties = Object.entries(objectSchema(kindOf(kind)).properties?.[part]?.properties ?? {});
      expect(properties.length).toBeGreaterThan(0);
      for (const [field, schema] of properties) {
        expect(text).toMatch(new RegExp(`^ {2}${field}\t<`, "m"));
        expect(words(text)).toContain(words(schema.description ?? `no description of ${field}`));
      }
      expect(text).not.toContain("<no description>");
    }
  });

  test.each(DEFINITIONS.map(({ kind }) => kind))(
    "kubectl get shows the columns of %s, by its short names",
    async (kind) => {
      const { plural, shortNames } = kindOf(kind);
      const name = `shown-${plural}`;
      await cluster.apply(JSON.stringify(named(sample(kind), name)));
      const condition = { type: "Ready", status: "False", reason: "Waiting", message: "for the network" };
      await setStatus(kind, name, condition);
      for (const [output, isShown] of [
        ["", (priority: number) => priority === 0],
        ["wide", () => true],
      ] as const) {
        const columns = customResourceDefinition(kindOf(kind)).spec.versions[0]?.additionalPrinterColumns ?? [];
        const wanted = ["NAME", ...columns.filter(({ priority = 0 }) => isShown(priority)).map((each) => each.name)];
        for (const resource of [plural, ...shortNames]) {
          const args = ["get", resource, name, ...(output === "" ? [] : ["--output", output])];
          const [header = "", row = ""] = (await cluster.kubectl(args)).split("\n");
          expect(header.trim().split(/ {2,}/)).toEqual(wanted.map((each) => each.toUpperCase()));
          expect(row).toMatch(new RegExp(`^${name} +False +Waiting`));
        }
      }
    },
  );

  test("one word shows all of a namespace, and kubectl waits for any of it", async () => {
    await cluster.kubectl(["create", "namespace", "all"]);
    for (const { kind } of DEFINITIONS) {
      const manifest = sample(kind);
      await cluster.apply(JSON.stringify({ ...manifest, metadata: { name: "one", namespace: "all" } }));
    }
    const waiting = cluster.kubectl([
      "wait",
      "--for=condition=Ready",
      "overlay",
      "--all",
      "-n",
      "all",
      "--timeout=60s",
    ]);
    for (const { kind } of DEFINITIONS) {
      await setStatus(kind, "one", { type: "Ready", status: "True", reason: "Ready", message: "" }, "all");
    }
    expect((await waiting).trim().split("\n")).toHaveLength(DEFINITIONS.length);
    const listed = await cluster.kubectl(["get", "overlay", "-n", "all", "--output", "name"]);
    expect(listed.trim().split("\n").toSorted()).toEqual(
      DEFINITIONS.map(({ singular }) => `${singular}.${GROUP}/one`).toSorted(),
    );
    await cluster.kubectl(["delete", "namespace", "all", "--timeout=60s"]);
  });

  test.each([
    ["by the server", ["--server-side"]],
    ["by kubectl", []],
  ])(
    "after one of each kind and the quickstart are applied %s, a diff is empty: no default is a change",
    async (how, args) => {
      const items = DEFINITIONS.map(({ kind }) => named(sample(kind), `diff-${how.split(" ").at(-1)}`));
      const all = JSON.stringify({ apiVersion: "v1", kind: "List", items });
      const same = { code: 0, stdout: "", stderr: "" };
      await cluster.kubectl(["apply", ...args, "-f", "-"], all);
      expect(await cluster.attempt(["diff", ...args, "-f", "-"], all)).toEqual(same);
      const quickstart = ["-k", join(ROOT, "examples", "quickstart")];
      await cluster.kubectl(["apply", ...args, ...quickstart]);
      expect(await cluster.attempt(["diff", ...args, ...quickstart])).toEqual(same);
      await cluster.kubectl(["delete", ...quickstart, "--timeout=120s"]);
    },
  );

  test("EdgeRouters are scaled", async () => {
    await cluster.apply(JSON.stringify(named(sample("EdgeRouter"), "scaled")));
    await cluster.kubectl(["scale", "oer/scaled", "--replicas=3"]);
    expect(await cluster.kubectl(["get", "oer/scaled", "--output", "jsonpath={.spec.replicas}"])).toBe("3");
  });

  test("a status does not touch the spec, and a spec not the status; only the spec makes a generation", async () => {
    await cluster.apply(JSON.stringify(named(sample("Identity"), "split")));
    const path = `${collection("Identity")}/split`;
    const { body: before } = await api.call<Answer>("GET", path);
    expect(before).toMatchObject({ status: { observedGeneration: -1 } });
    await setStatus("Identity", "split", { type: "Ready", status: "True", reason: "Ready", message: "" });
    const { body: after } = await api.call<Answer>("GET", path);
    expect(after.metadata.generation).toBe(before.metadata.generation);
    await cluster.apply(JSON.stringify(named(sample("Identity", { roleAttributes: ["web"] }), "split")));
    const { body: changed } = await api.call<Answer>("GET", path);
    expect(changed.metadata.generation).toBe(before.metadata.generation + 1);
    expect(changed).toMatchObject({ status: { conditions: [{ reason: "Ready" }] } });
  });

  async function setStatus(kind: string, name: string, condition: object, namespace = "default"): Promise<void> {
    const path = `${collection(kind, namespace)}/${name}`;
    const { body } = await api.call<Answer>("GET", path);
    const conditions = [{ ...condition, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1 }];
    const answer = await api.call<Answer>("PUT", `${path}/status?${STRICT}`, {
      ...body,
      status: { observedGeneration: 1, conditions },
    });
    expect(answer.body.message).toBeUndefined();
  }
});

/** What the API server adds of its own to the answer of a rule or of a schema. */
const ALWAYS_SAID = [
  // Once the schema refuses an object, its rules are not looked at,
  "some validation rules were not checked",
  // except for those of a field whose pattern alone does not fit.
  "type conversion error",
  // The field that is scaled is checked twice.
  "should be a non-negative integer",
];

/** Causes beside the wanted one. */
function otherCauses({ details }: Answer, message: string): string[] {
  return (details?.causes ?? [])
    .map((cause) => cause.message)
    .filter((each) => ![message, ...ALWAYS_SAID].some((part) => each.includes(part)));
}

/** kubectl breaks lines, and indents. */
const words = (text: string): string => text.split(/\s+/).join(" ").trim();
