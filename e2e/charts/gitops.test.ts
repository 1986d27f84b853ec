/**
 * The layouts of examples/gitops: Argo CD's health check as its interpreter runs it, and every manifest against the CRDs of Flux, Argo CD and ours. Also
 * examples/cloudnative-pg against the CRDs that it needs.
 */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Health, healthOf, type Judged } from "../../operator/src/kube/conditions.ts";
import { API_VERSION, LABELS } from "../../packages/resources/src/group.ts";
import { kindsServed } from "../cluster/kinds-served.ts";
import { Scene } from "../cluster/operator-faults/scene.ts";
import { hasCluster } from "../cluster/tools.ts";
import { helm, NoToolError, toolPath } from "./helm.ts";
import { documents } from "./network-chart.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const EXAMPLE = join(ROOT, "examples/gitops");
const HEALTH_LUA = join(EXAMPLE, "argocd/health.lua");

interface Manifested {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string };
  // biome-ignore lint/suspicious/noExplicitAny: specs of other people's kinds
  readonly spec: any;
  readonly data?: Readonly<Record<string, string>>;
}
const manifestsOf = (file: string) => documents(readFileSync(join(EXAMPLE, file), "utf8")) as unknown as Manifested[];
const FILES = readdirSync(EXAMPLE, { recursive: true, encoding: "utf8" })
  .filter((file) => file.endsWith(".yaml"))
  .sort();
const ALL = FILES.filter((file) => !file.endsWith("kustomization.yaml")).flatMap(manifestsOf);
const ofKind = (kind: string, version: string) =>
  ALL.filter((each) => each.kind === kind && each.apiVersion.startsWith(version));

/** The tool, or nothing where it can't be had: then what needs it is skipped. */
function toolOrNothing(name: "health" | "gitops-crds"): string | undefined {
  try {
    return toolPath(name);
  } catch (error) {
    if (!(error instanceof NoToolError)) throw error;
    console.warn(`\n*** SKIPPED: ${error.message}\n`);
    return undefined;
  }
}
const interpreter = toolOrNothing("health");
const crds = hasCluster ? toolOrNothing("gitops-crds") : undefined;

/** As Argo CD calls what kstatus says. */
const IN_ARGO: Readonly<Record<Health, string>> = {
  Current: "Healthy",
  InProgress: "Progressing",
  Terminating: "Progressing",
  Failed: "Degraded",
};

/** Every order of every choice of the conditions that count, with every status. */
function conditionLists(types: readonly string[]): object[][] {
  const lists = types.flatMap((type) =>
    conditionLists(types.filter((other) => other !== type)).flatMap((rest) =>
      ["True", "False", "Unknown"].map((status) => [
        { type, status, reason: "So", message: `${type} ${status}` },
        ...rest,
      ]),
    ),
  );
  return [[], ...lists];
}

describe.skipIf(interpreter === undefined)("the health check for Argo CD", () => {
  test("says what kstatus says, in every state", () => {
    const lists = [undefined, ...conditionLists(["Reconciling", "Stalled", "Ready"])];
    const states = [undefined, "2026-11-02T10:00:00Z"].flatMap((deletionTimestamp) => [
      { metadata: { generation: 2, deletionTimestamp } },
      ...[undefined, -1, 1, 2].flatMap((observedGeneration) =>
        lists.map((conditions) => ({
          metadata: { generation: 2, deletionTimestamp },
          status: { observedGeneration, conditions },
        })),
      ),
    ]) as unknown as Judged[];
    const input = states.map((state) => JSON.stringify(state)).join("\n");
    const output = execFileSync(interpreter as string, [HEALTH_LUA], { input, encoding: "utf8", maxBuffer: 2 ** 26 });
    const answers = output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as { status: string; message: string });
    const wrong = states.flatMap((state, i) => {
      const { health, message } = healthOf(state);
      const isSame = answers[i]?.status === IN_ARGO[health];
      const isOfCondition = / (True|False|Unknown)$/.test(message);
      return isSame && (!isOfCondition || answers[i]?.message === message) ? [] : [{ state, health, got: answers[i] }];
    });
    expect(wrong.slice(0, 3)).toEqual([]);
    expect(answers).toHaveLength(states.length);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set(Object.values(IN_ARGO)));
  });

  test("stands in the ConfigMap of Argo CD as it stands in its file", () => {
    const [settings] = manifestsOf("argocd/argocd-cm.yaml");
    const [customizations] = documents(settings?.data?.["resource.customizations"] ?? "") as unknown as [
      Readonly<Record<string, { "health.lua": string }>>,
    ];
    expect(customizations["sallyport.dev/*"]?.["health.lua"]).toBe(readFileSync(HEALTH_LUA, "utf8"));
  });
});

describe("the layout", () => {
  test("every reference leads somewhere", () => {
    const layers = ofKind("Kustomization", "kustomize.toolkit.fluxcd.io");
    const names = layers.map(({ metadata }) => metadata.name);
    const folders = [...layers, ...ofKind("Application", "argoproj.io")].flatMap(
      ({ spec }) => spec.path ?? spec.source.path ?? [],
    );
    for (const folder of folders) expect(existsSync(join(ROOT, folder, "kustomization.yaml"))).toBe(true);
    expect(folders).toHaveLength(7);
    for (const { spec } of layers) {
      for (const { name } of spec.dependsOn ?? []) expect(names).toContain(name);
      expect(ofKind(spec.sourceRef.kind, "source").map(({ metadata }) => metadata.name)).toContain(spec.sourceRef.name);
      expect(spec).toMatchObject({ wait: true, prune: true });
    }
    const projects = ["default", ...ofKind("AppProject", "argoproj.io").map(({ metadata }) => metadata.name)];
    for (const { spec } of ofKind("Application", "argoproj.io")) expect(projects).toContain(spec.project);
  });

  test("what a network's tenants may write with Argo CD is what the role for them allows", () => {
    const roles = documents(readFileSync(join(ROOT, "operator/deploy/cluster/users.yaml"), "utf8")) as unknown as {
      readonly metadata: { readonly name: string };
      readonly rules: readonly { readonly resources: readonly string[]; readonly verbs: readonly string[] }[];
    }[];
    const rules = roles.find(({ metadata }) => metadata.name === "sallyport-tenant")?.rules ?? [];
    const written = rules.filter(({ verbs }) => verbs.includes("create")).flatMap(({ resources }) => resources);
    const [project] = ofKind("AppProject", "argoproj.io");
    const plural = (kind: string) => kind.toLowerCase().replace(/y$/, "ie").concat("s");
    const kinds = project?.spec.namespaceResourceWhitelist.map(({ kind }: { kind: string }) => plural(kind));
    expect(kinds).toEqual(written);
  });

  test("every team writes in a namespace of its own, which is marked, and whose Network keeps it apart", () => {
    const teams = manifestsOf("tenants/team-a.yaml");
    const [namespace, network] = teams;
    expect(namespace?.metadata).toMatchObject({ name: "team-a", labels: { [LABELS.tenant]: "true" } });
    expect(network).toMatchObject({
      kind: "Network",
      metadata: { namespace: "team-a" },
      spec: { roleScope: "Namespaced" },
    });
    const [project] = ofKind("AppProject", "argoproj.io");
    expect(project?.spec.destinations).toEqual([expect.objectContaining({ namespace: "team-a" })]);
    const account = ofKind("Kustomization", "kustomize.toolkit.fluxcd.io").find(
      ({ metadata }) => metadata.name === "team-a",
    );
    expect(account).toMatchObject({ metadata: { namespace: "team-a" }, spec: { serviceAccountName: "team-a" } });
    expect(readFileSync(join(EXAMPLE, "team-a/kustomization.yaml"), "utf8")).toContain("namespace: team-a\n");
  });

  test("the operator's chart takes the values, and is of the release that is asked for", async () => {
    const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
    const [release] = ofKind("HelmRelease", "helm.toolkit.fluxcd.io");
    const [repository] = ofKind("OCIRepository", "source.toolkit.fluxcd.io");
    const operator = ofKind("Application", "argoproj.io").find(({ spec }) => spec.source.chart !== undefined);
    for (const values of [release?.spec.values, operator?.spec.source.helm.valuesObject]) {
      const made = await helm(["template", "sallyport", "helm/sallyport", "--values", "-"], {
        stdin: JSON.stringify(values),
      });
      for (const program of ["operator", "router", "controller"])
        expect(made).toContain(`registry.example.com/sallyport/${program}:${version}`);
    }
    for (const range of [repository?.spec.ref.semver, operator?.spec.source.targetRevision])
      expect(version.startsWith(range.replace(/[x*]$/, ""))).toBe(true);
  });
});

describe.skipIf(crds === undefined)("the layout on an API server", { timeout: 240_000 }, () => {
  let scene: Scene;
  const dryRun = ["--server-side", "--dry-run=server", "--validate=strict"];

  beforeAll(async () => {
    scene = await Scene.open();
    const { cluster } = scene;
    await cluster.kubectl(["apply", "--server-side", "-f", crds as string]);
    await kindsServed(cluster);
    for (const namespace of ["flux-system", "argocd"]) await cluster.kubectl(["create", "namespace", namespace]);
    await cluster.kubectl(["apply", "--server-side", "-f", join(EXAMPLE, "network/namespace.yaml")]);
    await cluster.kubectl(["apply", "--server-side", "-k", join(EXAMPLE, "tenants")]);
  });
  afterAll(async () => {
    await scene?.close();
  });

  test.each(["network", "tenants", "team-a", "flux/operator", "flux/tenants"])(
    "takes the folder %s",
    async (folder) => {
      const said = await scene.cluster.kubectl(["apply", ...dryRun, "-k", join(EXAMPLE, folder)]);
      expect(said.trim().split("\n").length).toBeGreaterThan(0);
      for (const line of said.trim().split("\n")) expect(line).toMatch(/ serverside-applied \(server dry run\)$/);
    },
  );

  test("takes the network on a PostgreSQL of CloudNativePG", async () => {
    const folder = join(ROOT, "examples/cloudnative-pg");
    await scene.cluster.kubectl(["apply", "--server-side", "-f", join(folder, "namespace.yaml")]);
    const said = await scene.cluster.kubectl(["apply", ...dryRun, "-k", folder]);
    for (const line of said.trim().split("\n")) expect(line).toMatch(/ serverside-applied \(server dry run\)$/);
    expect(said).toContain("cluster.postgresql.cnpg.io/overlay-db");
    expect(said).toContain("network.sallyport.dev/main");
  });

  test.each(["flux/layers.yaml", ...FILES.filter((file) => file.startsWith("argocd/"))])("takes %s", async (file) => {
    const said = await scene.cluster.kubectl(["apply", ...dryRun, "-f", join(EXAMPLE, file)]);
    expect(said.trim().split("\n")).toHaveLength(manifestsOf(file).length);
  });

  test("the team's service account writes what the team has, and neither Networks nor routers", async () => {
    const asTeam = ["apply", "--as", "system:serviceaccount:team-a:team-a", ...dryRun];
    const said = await scene.cluster.kubectl([...asTeam, "-k", join(EXAMPLE, "team-a")]);
    expect(said.trim().split("\n")).toHaveLength(
      ALL.filter(({ apiVersion, metadata }) => apiVersion === API_VERSION && metadata.name.startsWith("team-a-"))
        .length,
    );
    for (const file of ["network.yaml", "routers.yaml"]) {
      const refused = await scene.cluster.attempt([
        ...asTeam,
        "--namespace",
        "team-a",
        "-f",
        join(EXAMPLE, "network", file),
      ]);
      expect(refused.stderr).toMatch(
        /system:serviceaccount:team-a:team-a" cannot (patch|get) resource "(networks|edgerouters)"/,
      );
    }
  });
});
