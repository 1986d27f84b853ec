import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DEFINITIONS } from "@sallyport/resources/definitions";
import { sample } from "@sallyport/resources/testing/samples";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it, test } from "vitest";
import { stringify } from "yaml";
import { testContext } from "../testing/test-context.ts";
import { DECLARED_KINDS } from "./declared-kinds.ts";
import { documentsOf, readDocuments } from "./documents.ts";
import { readManifests } from "./manifests.ts";
import { fileOwner, markOf } from "./marks.ts";
import { referencesOf } from "./plan.ts";
import { matches, selectorOf } from "./selector.ts";

const read = async (text: string) => {
  const { documents, problems } = await documentsOf(text, "f.yml");
  const manifests = readManifests(documents);
  return { ...manifests, problems: [...problems, ...manifests.problems] };
};
const lines = (findings: readonly { place: string; text: string }[]) =>
  findings.map(({ place, text }) => `${place}: ${text}`);

const HEAD = "apiVersion: sallyport.dev/v1alpha1\nkind: ServicePolicy\nmetadata: { name: dial }\n";
const SPEC = "spec:\n  type: Dial\n  semantic: AnyOf\n";

describe("a file", () => {
  it.each(DECLARED_KINDS.map(({ kind }) => kind))(
    "may declare %s as a cluster takes it, and again without a Network",
    async (kind) => {
      const whole = sample(kind);
      const { networkRef: _, ...spec } = whole.spec;
      for (const each of [whole, { ...whole, spec }]) {
        const { declared, problems, warnings } = await read(stringify(each));
        expect([problems, warnings]).toEqual([[], []]);
        expect(declared[0]?.resource).toMatchObject({ kind, metadata: { name: "sample", namespace: "default" }, spec });
      }
    },
  );

  it("may have several documents, lists, merge keys, nulls and what a cluster wrote", async () => {
    const item = {
      ...sample("OverlayService"),
      status: { id: "x" },
      metadata: { name: "b", uid: "1", managedFields: [] },
    };
    const list = stringify({ apiVersion: "v1", kind: "List", items: [item] });
    const merged = `${HEAD}spec:\n  <<: { type: Dial }\n  semantic: AnyOf\n  serviceRoles:\n`;
    const { declared, problems } = await read(`${merged}---\n---\n${list}`);
    expect(problems).toEqual([]);
    expect(declared.map(({ resource }) => resource.metadata.name)).toEqual(["dial", "b"]);
  });

  // biome-ignore format: a table
  it.each([
    ["a syntax error", "a: [", "f.yml:1:5: Flow sequence in block collection must be sufficiently indented and end with a ]"],
    ["a doubled key", `${HEAD}${SPEC}  type: Bind\n`, "f.yml:7:3: Map keys must be unique"],
    ["no map", "- a\n", "f.yml:1:1: expected a resource with apiVersion, kind and spec"],
    ["no apiVersion", "kind: Identity\n", "f.yml:1:1: expected apiVersion: sallyport.dev/v1alpha1"],
    ["a misspelt group", "apiVersion: sallyprot.dev/v1alpha1\nkind: Identity\n", "f.yml:1:13: unknown apiVersion 'sallyprot.dev/v1alpha1': did you mean 'sallyport.dev/v1alpha1'?"],
    ["another version", "apiVersion: sallyport.dev/v2\nkind: Identity\n", "f.yml:1:13: unknown apiVersion 'sallyport.dev/v2': expected sallyport.dev/v1alpha1"],
    ["a misspelt kind", "apiVersion: sallyport.dev/v1alpha1\nkind: Identify\n", "f.yml:2:7: unknown kind 'Identify': did you mean 'Identity'?"],
    ["an unknown field", `${HEAD}${SPEC}  identityRole: ["#a"]\n`, "f.yml:7:3: spec.identityRole: ServicePolicy has no such field: did you mean 'identityRoles'?"],
    ["a wrong value", `${HEAD}spec:\n  type: Dail\n  semantic: AnyOf\n`, `f.yml:5:9: spec.type: expected one of Dial, Bind, found "Dail": did you mean 'Dial'?`],
    ["a wrong type", `${HEAD}${SPEC}  serviceRoles: [5]\n`, "f.yml:7:18: spec.serviceRoles[0]: expected text, found 5"],
    ["a field that every object of JavaScript has", `${HEAD}${SPEC}  constructor: x\n`, "f.yml:7:3: spec.constructor: ServicePolicy has no such field"],
    ["a missing field", `${HEAD}spec:\n  type: Dial\n`, "f.yml:4:1: spec.semantic is missing: expected AnyOf, AllOf"],
    ["no spec", HEAD, "f.yml:1:1: spec is missing: expected fields with values"],
    ["a broken rule", `${HEAD}${SPEC}  serviceRoles: ["#all", "#a"]\n`, "f.yml:7:17: spec.serviceRoles: #all selects every entity: it stands alone"],
    ["a rule with a field", `${HEAD}${SPEC}  serviceRoles: ["#all"]\n  serviceIds: [x]\n`, "f.yml:7:17: spec.serviceRoles: #all selects every entity: leave serviceRefs and serviceIds out"],
    ["a bad name", `${HEAD.replace("dial", "Dial")}${SPEC}`, `f.yml:3:19: metadata.name: expected small letters, digits, - and ., found "Dial"; the network's own name of it may have any, in spec.name`],
    ["an unknown field of metadata", `${HEAD.replace("name: dial", "name: dial, lables: {}")}${SPEC}`, "f.yml:3:25: metadata.lables: a resource has no such field: did you mean 'labels'?"],
    ["a label that is none", `${HEAD.replace("name: dial", "name: dial, labels: { a: 5 }")}${SPEC}`, "f.yml:3:38: metadata.labels.a: expected text of letters, digits, -, _ and ., found 5"],
    ["a word that YAML 1.1 reads otherwise", `${HEAD}${SPEC}  tags: { a: no }\n`, 'f.yml:7:14: a cluster reads no as false: write false, or "no" for the text'],
    ["a number that YAML 1.1 reads otherwise", `${HEAD}${SPEC}  tags: { a: 0644 }\n`, 'f.yml:7:14: a cluster reads 0644 as another number: write a decimal number, or "0644" for the text'],
    ["a number that is none", `${HEAD.replace("ServicePolicy", "OverlayService")}spec: { maxIdleTimeMillis: .nan }\n`, 'f.yml:4:28: no resource can have .nan: write a number, or ".nan" for the text'],
    ["a number that is too large", `${HEAD.replace("ServicePolicy", "ServiceConfig")}spec: { type: x, data: { a: 12345678901234567890 } }\n`, 'f.yml:4:29: 12345678901234567890 would be rounded: write a smaller number, or "12345678901234567890" for the text'],
    ["one resource twice", `${HEAD}${SPEC}---\n${HEAD}${SPEC}`, "f.yml:8:1: ServicePolicy/dial is declared twice: first at f.yml:1:1"],
    ["two networks", `${HEAD}${SPEC}  networkRef: { name: a }\n---\n${HEAD.replace("dial", "b")}${SPEC}  networkRef: { name: b }\n`, "f.yml:9:1: spec.networkRef names b, but f.yml:1:1 names a: apply the files of each network by themselves"],
    ["a Secret's value", `${HEAD.replace("ServicePolicy", "ServiceConfig")}spec:\n  type: host.v1\n  dataFrom: { secretRef: { name: a, key: b } }\n`, "f.yml:6:3: spec.dataFrom: Secrets are in a cluster, so only the operator reads them: write the config into data"],
    ["an alias of itself", "&a [*a]\n", /^f\.yml:1:1: cannot be used: /],
    ["deep nesting", `a: ${"[".repeat(20_000)}`, /^f\.yml:1:/],
  ])("with %s names its place", async (_what, text, message) => {
    expect(lines((await read(text)).problems)).toContainEqual(typeof message === "string" ? message : expect.stringMatching(message));
  });

  it("says what of it needs a cluster: each field once, documents as a whole", async () => {
    const router = (name: string) =>
      stringify({
        ...sample("EdgeRouter", { exposure: { type: "None" }, tunneler: { enabled: true, mode: "host" } }),
        metadata: { name },
      });
    const identity = stringify(sample("Identity", { enrollment: { output: "IdentitySecret", secretName: "s" } }));
    const { warnings, declared } = await read([router("a"), router("b"), identity].join("---\n"));
    expect(declared).toHaveLength(3);
    expect(warnings.map(({ text }) => text.replace(/:.*?( \(|$)/, ":$1"))).toEqual([
      "spec.exposure has no effect here: (2 times)",
      "spec.tunneler.mode has no effect here: (2 times)",
      "spec.enrollment.output has no effect here:",
      "spec.enrollment.secretName has no effect here:",
    ]);
    const apart = stringify(sample("Network", { roleScope: "Namespaced" }));
    const deployment = "apiVersion: apps/v1\nkind: Deployment\nmode: 0440\n";
    const others = await read([stringify(sample("Network")), apart, deployment].join("---\n"));
    expect(others.problems).toEqual([]);
    expect(others.clusterOnly.map(({ text }) => text)).toEqual([
      "Network is for the operator",
      "Network is for the operator (its roleScope needs --role-scope Namespaced)",
      "Deployment of apps/v1 is an object of a cluster",
    ]);
  });
});

test("whatever a file holds, it is declared or said to be wrong", async () => {
  const kinds = DECLARED_KINDS.map(({ kind }) => kind);
  const names = fc.constantFrom(
    "networkRef",
    "tags",
    "type",
    "enrollment",
    "replicas",
    "__proto__",
    "serviceRoles",
    "data",
  );
  const value = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.dictionary(names, fc.jsonValue({ maxDepth: 2 })));
  const manifest = fc.record(
    {
      apiVersion: fc.oneof({ weight: 9, arbitrary: fc.constant("sallyport.dev/v1alpha1") }, fc.jsonValue()),
      kind: fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...kinds, "Network") }, fc.jsonValue()),
      metadata: fc.oneof(
        fc.constant({ name: "a" }),
        fc.dictionary(fc.constantFrom("name", "labels", "annotations"), value),
      ),
      spec: fc.oneof(fc.dictionary(names, value), value),
    },
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(manifest, async (each) => {
      const { declared, problems, clusterOnly } = await read(stringify(each));
      expect(declared.length + problems.length + clusterOnly.length).toBeGreaterThan(0);
      for (const { place } of problems) expect(place).toMatch(/^f\.yml:\d+:\d+$/);
    }),
    { numRuns: 500 },
  );
});

test("what the guide shows can be applied as it stands", async () => {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/cli.md"), "utf8");
  const [, example = ""] = /```yaml\n(apiVersion: [\s\S]*?)```/.exec(page) ?? [];
  const { declared, problems, warnings } = await read(example);
  expect([problems, warnings]).toEqual([[], []]);
  expect(declared.map(({ labels }) => labels)).toEqual([{ team: "red" }, { team: "red" }]);
});

describe("files", () => {
  const folder = mkdtempSync(join(tmpdir(), "sallyport-declared-"));
  beforeAll(() => {
    mkdirSync(join(folder, "below"));
    writeFileSync(join(folder, "b.yaml"), stringify(sample("Identity", {}, "b")));
    writeFileSync(join(folder, "a.json"), JSON.stringify(sample("Identity", {}, "a")));
    writeFileSync(join(folder, "below", "c.yml"), stringify(sample("Identity", {}, "c")));
    writeFileSync(join(folder, "note.txt"), "no YAML");
    writeFileSync(join(folder, "empty.txt"), "# nothing\n");
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const names = async (given: readonly string[], isRecursive = false) =>
    readManifests((await readDocuments(given, isRecursive, testContext())).documents).declared.map(
      ({ resource }) => resource.metadata.name,
    );

  it("of a folder are read in order, with -R those below it, and each once", async () => {
    expect(await names([folder])).toEqual(["a", "b"]);
    expect(await names([folder, join(folder, "b.yaml")], true)).toEqual(["a", "b", "c"]);
  });

  it("that cannot be read or declare nothing are named", async () => {
    await expect(names([join(folder, "none.yml")])).rejects.toThrow(/^cannot read .*none\.yml: ENOENT/);
    await expect(names([join(folder, "empty.txt")])).rejects.toThrow("declares nothing");
    mkdirSync(join(folder, "bare"));
    await expect(names([join(folder, "bare")])).rejects.toThrow(
      "has no file that ends in .yml, .yaml or .json; -R looks",
    );
    await expect(names(["-"])).rejects.toThrow("- declares nothing");
  });
});

test("every kind but Network may be declared, and refers only to kinds of earlier stages", () => {
  const kinds = DECLARED_KINDS.map(({ kind }) => kind);
  expect(DEFINITIONS.map(({ kind }) => kind).filter((kind) => !kinds.includes(kind))).toEqual(["Network"]);
  const ref = [{ name: "x" }];
  const pair = [{ serviceRef: { name: "x" }, configRef: { name: "x" } }];
  const all = { configRefs: ref, identityRefs: ref, serviceRefs: ref, edgeRouterRefs: ref, postureCheckRefs: ref };
  const spec = { ...all, authPolicyRef: { name: "x" }, serviceHosting: pair, serviceConfigs: pair };
  for (const kind of DECLARED_KINDS) {
    const references = referencesOf({
      kind,
      resource: { kind: kind.kind, metadata: { namespace: "", name: "", uid: "" }, spec } as never,
    });
    for (const each of references) {
      const stage = DECLARED_KINDS.find((other) => other.kind === each.kind)?.stage ?? Number.NaN;
      expect(stage, `${kind.kind} refers to ${each.kind}`).toBeLessThan(kind.stage);
    }
  }
});

test("what is remembered of a file comes back from the tags", () => {
  const place = { kind: "Identity", namespace: "a", name: "b" };
  const { cluster, marks, uid, namespace, name, kind } = fileOwner(place, {
    labels: { z: "1", a: "2" },
    deletionPolicy: "Orphan",
  });
  const tags = {
    "sallyport-cluster": cluster,
    "sallyport-kind": kind,
    "sallyport-namespace": namespace,
    "sallyport-name": name,
    "sallyport-uid": uid,
    ...marks,
  };
  expect(markOf(tags)).toEqual({ ...place, ordinal: undefined, labels: { a: "2", z: "1" }, isOrphaned: true });
  expect(markOf({ ...tags, "sallyport-labels": "{" })?.labels).toEqual({});
  expect(markOf({ ...tags, "sallyport-cluster": "uid-of-a-cluster" })).toBeUndefined();
  expect(markOf(null)).toBeUndefined();
});

describe("a selector", () => {
  it("wants every label", () => {
    expect(selectorOf("a=1, b==2")).toEqual({ a: "1", b: "2" });
    expect(matches({ a: "1", b: "2", c: "3" }, { a: "1", b: "2" })).toBe(true);
    expect(matches({ a: "1" }, { a: "1", b: "2" })).toBe(false);
    expect(matches({}, { toString: "x" })).toBe(false);
  });

  it.each(["", "a", "a!=b", "=b", "a=b,", "a b=c"])("%j is refused", (text) => {
    expect(() => selectorOf(text)).toThrow("selects no labels");
  });
});
