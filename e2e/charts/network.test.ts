/** The chart of a network without a cluster: what it makes of values, and which values helm refuses. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { KINDS } from "../../packages/resources/src/group.ts";
import { REFUSALS, type Refusal } from "../../packages/resources/src/kinds/testing/refusals.ts";
import { sample } from "../../packages/resources/src/kinds/testing/samples.ts";
import { NETWORK_CHART_MAPS } from "../../scripts/charts/network-schema.ts";
import { HelmError, helm } from "./helm.ts";
import { CHART, documents, EXAMPLES, exampleFile, ownResources, rendered, specsOf, valuesOf } from "./network-chart.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const QUICKSTART = join(ROOT, "examples/quickstart");

/** What helm says of values that it refuses. */
async function refusal(values: object): Promise<string> {
  const said = await rendered({ ...values }).then(
    () => undefined,
    (error: unknown) => error,
  );
  if (said === undefined) throw new Error(`helm took ${JSON.stringify(values)}`);
  if (!(said instanceof HelmError)) throw said;
  return said.stderr;
}

describe("what is rendered", () => {
  test.each(EXAMPLES)("%s: lint says nothing, and every object has a network", async (name) => {
    await helm(["lint", "--strict", CHART, "--values", exampleFile(name)]);
    const { name: network, create = true } = (
      parse(readFileSync(join(ROOT, exampleFile(name)), "utf8")) as {
        network: { name?: string; create?: boolean };
      }
    ).network;
    const resources = ownResources(await rendered(exampleFile(name)));
    expect(resources.length).toBeGreaterThan(1);
    for (const { kind, metadata, spec } of resources) {
      if (kind === "Network") expect(metadata.name).toBe(network ?? "main");
      else expect(spec.networkRef).toEqual({ name: network ?? "main" });
      expect(metadata.namespace).toBe("quickstart");
    }
    expect(resources.filter(({ kind }) => kind === "Network")).toHaveLength(create ? 1 : 0);
  });

  test("without values: a network that the operator runs, and a lint that says nothing", async () => {
    await helm(["lint", "--strict", CHART]);
    expect(specsOf(await rendered({}))).toEqual({ "Network/main": { managed: {} } });
  });

  test("the quick start is that of examples/quickstart", async () => {
    const files = readdirSync(QUICKSTART).filter((file) => file.endsWith(".yaml"));
    const wanted = files.flatMap((file) => documents(readFileSync(join(QUICKSTART, file), "utf8")));
    expect(specsOf(await rendered(exampleFile("quickstart.yaml")))).toEqual(specsOf(wanted));
    expect(readFileSync(join(ROOT, exampleFile("quickstart.yaml")), "utf8").split("\n").length).toBeLessThan(45);
  });

  test("a value is data, whatever it looks like", async () => {
    const odd = {
      template: "{{ .Values.network.name }} {{ fail `no` }}",
      variable: "$HOME $(HOME)",
      octal: "0440",
      boolean: "yes",
      number: "1e3",
      empty: "",
      lines: "one\n  two\n---\nthree: four\n",
      comment: "# a: b",
      nothing: null,
      list: [1, "1", true, "true", 1.5],
      large: 86_400_000_000,
    };
    const tags = { "{{ .Release.Name }}": "a: {b}", 'quote"\\': "*anchor", "0x10": "~" };
    const entry = { tags, appData: odd, metadata: { annotations: { "{{ 1 }}/a": "{{ 2 }}" } } };
    const service = { maxIdleTimeMillis: 86_400_000, host: odd };
    const manifests = await rendered({ identities: { odd: entry }, services: { odd: service } });
    const {
      "Identity/odd": identity,
      "ServiceConfig/odd-host": host,
      "OverlayService/odd": overlay,
    } = specsOf(manifests);
    expect(identity).toEqual({ networkRef: { name: "main" }, tags, appData: odd });
    expect(host).toEqual({ networkRef: { name: "main" }, type: "host.v1", data: odd });
    expect(overlay).toMatchObject({ maxIdleTimeMillis: 86_400_000 });
    const made = manifests.find(({ kind }) => kind === "Identity") as unknown as { metadata: { annotations: object } };
    expect(made.metadata.annotations).toEqual({ "{{ 1 }}/a": "{{ 2 }}" });
  });

  test("host and intercept stand beside the configs that a service has already", async () => {
    const service = {
      configRefs: [{ name: "a" }],
      host: {},
      intercept: { protocols: ["tcp"] },
      metadata: { labels: { team: "a" } },
    };
    const manifests = await rendered({ services: { web: service } });
    expect(specsOf(manifests)).toMatchObject({
      "OverlayService/web": { configRefs: [{ name: "a" }, { name: "web-host" }, { name: "web-intercept" }] },
      "ServiceConfig/web-host": { type: "host.v1", data: {} },
      "ServiceConfig/web-intercept": { type: "intercept.v1", data: { protocols: ["tcp"] } },
    });
    for (const { kind, metadata } of ownResources(manifests))
      if (kind !== "Network")
        expect(metadata).toMatchObject({ labels: { team: "a", "app.kubernetes.io/instance": "main" } });
  });

  test("labels and annotations of all and of one; labels by which the release is found stay", async () => {
    const mine = { labels: { a: "2", "app.kubernetes.io/instance": "x" }, annotations: { b: "2" } };
    const [network] = ownResources(
      await rendered({
        commonLabels: { a: "1", c: "1" },
        commonAnnotations: { b: "1", d: "1" },
        keepOnUninstall: true,
        network: { metadata: mine },
      }),
    );
    expect(network?.metadata).toMatchObject({
      labels: { a: "2", c: "1", "app.kubernetes.io/instance": "main" },
      annotations: { b: "2", d: "1", "helm.sh/resource-policy": "keep" },
    });
  });

  test("an entry that a second values file takes away is not made", async () => {
    const maps = Object.values(NETWORK_CHART_MAPS).map((map) => [map, { laptop: null }] as const);
    const stdin = JSON.stringify(Object.fromEntries(maps));
    const args = ["template", "main", CHART, "--values", exampleFile("quickstart.yaml"), "--values", "-"];
    const specs = specsOf(documents(await helm(args, { stdin })));
    expect(Object.keys(specs).filter((key) => key.startsWith("Identity/"))).toEqual([
      "Identity/hello-client",
      "Identity/hello-host",
    ]);
  });

  test("the pod of helm test may look at every kind and at nothing else", async () => {
    const role = (await rendered({})).find(({ kind }) => kind === "Role") as unknown as { rules: unknown };
    const resources = KINDS.map(({ plural }) => plural);
    expect(role.rules).toEqual([{ apiGroups: ["sallyport.dev"], resources, verbs: ["get", "list"] }]);
    const manifests = await rendered({ test: { enabled: false } });
    expect(manifests.every(({ apiVersion }) => apiVersion === "sallyport.dev/v1alpha1")).toBe(true);
  });

  test("the version is that of the project", () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    expect(parse(readFileSync(join(ROOT, CHART, "Chart.yaml"), "utf8"))).toMatchObject({
      version,
      appVersion: version,
    });
  });
});

/** What JSON Schema can't say: rules in CEL, keys of lists. The API server refuses it. */
const isBeyondSchema = ({ rule, message, at }: Refusal): boolean =>
  (rule === "rule" && !/^(exactly one of|only one of)/.test(message)) || // rules
  (rule === "x-kubernetes-list-type" && /Refs$|operatingSystems$|processes$/.test(at)) ||
  at === "spec.networkRef";

const WRONG = REFUSALS.filter((each) => each.previous === undefined && !isBeyondSchema(each));

/** Whether helm names the path of it; of a field that is missing or unknown that of its object, of an entry its own. */
function names(said: string, { at, rule }: Refusal, base: string): boolean {
  const steps = at.split(".").slice(1);
  if (rule === "unknown" || rule === "required") steps.pop();
  const path = [base, ...steps].join("/").replaceAll("[]", "/*");
  const pattern = path.replaceAll(/[.^$(){}+?]/g, "\\$&").replaceAll("*", "[^/']+");
  return new RegExp(`at '${pattern}'`).test(said);
}

describe("what is refused", () => {
  test.each([
    ["a map that there isn't", { routres: {} }, "at '': additional properties 'routres' not allowed"],
    [
      "a field that there isn't",
      { routers: { eu: { replica: 2 } } },
      "at '/routers/eu': additional properties 'replica' not allowed",
    ],
    ["a wrong type", { routers: { eu: { replicas: "2" } } }, "at '/routers/eu/replicas': got string, want integer"],
    [
      "a choice that there isn't",
      { servicePolicies: { a: { type: "Host", semantic: "AnyOf" } } },
      "at '/servicePolicies/a/type': value must be one of",
    ],
    ["a name that is too long", { routers: { ["r".repeat(41)]: {} } }, "at '/routers': additional properties 'rrrr"],
    [
      "a name that a Service can't have",
      { routers: { "eu.west": {} } },
      "at '/routers': additional properties 'eu.west' not allowed",
    ],
    [
      "a service whose configs would have no room",
      { services: { ["s".repeat(244)]: {} } },
      "at '/services': additional properties 'ssss",
    ],
    [
      "managed and external",
      { network: { spec: { managed: {}, external: sample("Network").spec.external } } },
      "at '/network/spec': 'not' failed",
    ],
    [
      "a spec for a Network of another release",
      { network: { create: false, spec: { managed: {} } } },
      "at '/network/spec': maxProperties: got 1, want 0",
    ],
    [
      "both kinds of database",
      { network: { spec: { managed: { database: { embedded: {}, urlSecretRef: { name: "a", key: "b" } } } } } },
      "at '/network/spec/managed/database': 'oneOf' failed",
    ],
    [
      "an annotation that is no text",
      { network: { metadata: { annotations: { a: 1 } } } },
      "at '/network/metadata/annotations/a': got number, want string",
    ],
    [
      "a networkRef of its own",
      { identities: { a: { networkRef: { name: "b" } } } },
      "at '/identities/a': additional properties 'networkRef' not allowed",
    ],
    [
      "a config that is given and read",
      { serviceConfigs: { a: { type: "a", data: {}, dataFrom: { secretRef: { name: "a", key: "b" } } } } },
      "at '/serviceConfigs/a': 'oneOf' failed",
    ],
    [
      "two authentication policies",
      { identities: { a: { authPolicyId: "a", authPolicyRef: { name: "a" } } } },
      "at '/identities/a': 'not' failed",
    ],
    [
      "a config that is there twice",
      { services: { a: { host: {} } }, serviceConfigs: { "a-host": { type: "host.v1", data: {} } } },
      "services.a.host and serviceConfigs.a-host are the same",
    ],
  ])("%s", async (_, values, said) => {
    expect(await refusal(values)).toContain(said);
  });

  test("everything that the schema of a kind refuses, with its path", async () => {
    const entries = WRONG.filter(({ kind }) => kind !== "Network").map((wrong, i) => [`wrong-${i}`, wrong] as const);
    const said = await refusal(valuesOf(entries.map(([name, { object }]) => ({ ...object, metadata: { name } }))));
    const missed = entries.filter(([name, wrong]) => !names(said, wrong, `/${NETWORK_CHART_MAPS[wrong.kind]}/${name}`));
    expect(missed.map(([name, { at, rule, message }]) => ({ name, at, rule, message }))).toEqual([]);
    expect(entries.length).toBeGreaterThan(100);
  });

  const networks = WRONG.filter((wrong) => wrong.kind === "Network" && wrong.object.spec.external !== undefined);
  test.each(networks.map((wrong) => [wrong.at, wrong.message, wrong] as const))("%s: %s", async (_, __, wrong) => {
    const said = await refusal(valuesOf([wrong.object]));
    expect(said).toSatisfy((text: string) => names(text, wrong, "/network/spec"));
  });
});

test("what the kinds take is taken", async () => {
  const previous = REFUSALS.flatMap((each) => each.previous ?? []).filter(({ kind }) => kind !== "Network");
  const taken = [...KINDS.map(({ kind }) => sample(kind)), ...previous].map((object, i) =>
    object.kind === "Network" ? object : { ...object, metadata: { name: `right-${i}` } },
  );
  expect(specsOf(await rendered(valuesOf(taken)))).toEqual(
    Object.fromEntries(
      taken.map(({ kind, metadata, spec }) => [
        `${kind}/${metadata.name}`,
        kind === "Network" ? spec : { ...spec, networkRef: { name: "sample" } },
      ]),
    ),
  );
});
