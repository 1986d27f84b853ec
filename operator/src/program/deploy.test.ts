/** The manifests in operator/deploy agree with each other and with the kinds. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { KINDS } from "@sallyport/resources";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}
interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly rules?: readonly Rule[];
}

const read = (file: string): Manifest[] =>
  parseAllDocuments(readFileSync(join(import.meta.dirname, "../../deploy", file), "utf8")).map(
    (document) => document.toJS() as Manifest,
  );
const rulesOf = (file: string, name: string) =>
  read(file).find(({ kind, metadata }) => kind.endsWith("Role") && metadata.name === name)?.rules ?? [];

const everywhere = rulesOf("cluster/roles.yaml", "sallyport-operator");
const inOne = rulesOf("namespaced/role.yaml", "sallyport-operator");
const plurals = KINDS.map(({ plural }) => plural);

test("the rights in one namespace are those in all, without what belongs to the cluster", () => {
  const ofCluster = (rule: Rule) => ["customresourcedefinitions"].includes(rule.resources[0] ?? "");
  expect(everywhere.filter((rule) => !ofCluster(rule))).toEqual(inOne);
  expect(
    everywhere
      .filter(ofCluster)
      .every(({ verbs, resourceNames }) => verbs.join() === "get" && (resourceNames?.length ?? 0) > 0),
  ).toBe(true);
});

test.each([
  ["", ["get", "list", "watch", "patch"]],
  ["/status", ["patch"]],
  ["/finalizers", ["update"]],
])("every own kind%s may be kept, and no more than that", (suffix, verbs) => {
  const found = inOne.filter(
    ({ apiGroups, resources }) =>
      apiGroups.includes("sallyport.dev") &&
      resources.some((name) => name.includes("/") === (suffix !== "") && name.endsWith(suffix)),
  );
  expect(found.flatMap(({ resources }) => resources)).toEqual(plurals.map((plural) => plural + suffix));
  expect(found.every((rule) => rule.verbs.join() === verbs.join())).toBe(true);
});

test("nothing is allowed by a wildcard, and no account gets rights from the operator", () => {
  const rules = [...everywhere, ...inOne, ...rulesOf("base/leases.yaml", "sallyport-operator-leases")];
  const words = rules.flatMap(({ apiGroups, resources, verbs }) => [...apiGroups, ...resources, ...verbs]);
  for (const word of ["*", "escalate", "bind", "impersonate", "roles", "rolebindings", "pods/exec"])
    expect(words).not.toContain(word);
});

test("the CRDs that are looked at are those of the kinds", () => {
  const crds = everywhere.find(({ resources }) => resources[0] === "customresourcedefinitions");
  expect(crds?.resourceNames).toEqual(KINDS.map(({ plural, group }) => `${plural}.${group}`));
});

describe("users", () => {
  const roles = read("cluster/users.yaml");
  const byVerb = (name: string, verb: string) =>
    rulesOf("cluster/users.yaml", name).flatMap(({ resources, verbs }) => (verbs.includes(verb) ? resources : []));
  const WRITING = ["create", "update", "patch", "delete", "deletecollection"];
  const statuses = plurals.map((plural) => `${plural}/status`);

  test("who may view a namespace see everything of all kinds, and write nothing", () => {
    for (const verb of ["get", "list", "watch"]) {
      expect(byVerb("sallyport-view", verb)).toEqual([...plurals, ...statuses, "edgerouters/scale"]);
    }
    for (const verb of WRITING) expect(byVerb("sallyport-view", verb)).toEqual([]);
  });

  const theirs = plurals.filter((plural) => plural !== "networks" && plural !== "edgerouters");

  test("who may edit a namespace write what takes part in a network and scale routers, and no status", () => {
    for (const verb of ["create", "delete", "deletecollection"]) {
      expect(byVerb("sallyport-edit", verb)).toEqual(theirs);
    }
    for (const verb of ["update", "patch"]) {
      expect(byVerb("sallyport-edit", verb)).toEqual([...theirs, "edgerouters/scale"]);
    }
  });

  test("only who administers a namespace says how a network is reached, and which routers it has", () => {
    for (const verb of WRITING) expect(byVerb("sallyport-admin", verb)).toEqual(["networks", "edgerouters"]);
    expect(byVerb("sallyport-admin", "get")).toEqual([]);
  });

  test("who are tenants write neither how a network is reached nor what runs pods", () => {
    for (const verb of WRITING) expect(byVerb("sallyport-tenant", verb)).toEqual(theirs);
    expect(byVerb("sallyport-tenant", "list")).toEqual([...plurals, ...statuses]);
  });

  test("get these rights with those that Kubernetes knows, and a tenant by a binding only", () => {
    const aggregated = roles.map(({ metadata: { name, labels = {} } }) => [
      name,
      Object.keys(labels).flatMap((label) => /aggregate-to-(\w+)$/.exec(label)?.[1] ?? []),
    ]);
    expect(Object.fromEntries(aggregated)).toEqual({
      "sallyport-view": ["view", "edit", "admin"],
      "sallyport-edit": ["edit", "admin"],
      "sallyport-admin": ["admin"],
      "sallyport-tenant": [],
    });
    expect(roles.every(({ rules = [] }) => rules.every(({ apiGroups }) => apiGroups.join() === "sallyport.dev"))).toBe(
      true,
    );
  });
});
