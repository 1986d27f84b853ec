/** The chart of the operator without a cluster: what it makes of values, and which values helm refuses. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { OperatorSettings } from "../../operator/src/program/settings.ts";
import { KINDS } from "../../packages/resources/src/group.ts";
import { HelmError, helm } from "./helm.ts";
import { documents } from "./network-chart.ts";
import { CHART, commandOf, containerOf, named, type Rendered, ROOT, rendered, VERSION } from "./operator-chart.ts";

const CLUSTER_SCOPED = ["ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "Namespace"];
const DIGEST = `sha256:${"a".repeat(64)}`;
const IN_TWO = { watchNamespaces: ["a", "b"], clusterId: "team-a" };

const fileOf = (path: string) => documents(readFileSync(join(ROOT, path), "utf8")) as unknown as Rendered[];
const namesOf = (objects: readonly Rendered[]) => objects.map(({ kind, metadata }) => `${kind}/${metadata.name}`);

test("lint says nothing", async () => {
  expect(await helm(["lint", "--strict", CHART])).toContain("0 chart(s) failed");
  await helm(["lint", "--strict", CHART, "--values", "-"], { stdin: JSON.stringify(IN_TWO) });
});

describe("what is rendered", () => {
  test("the CRDs are those of the folder crds, and are kept unless values say otherwise", async () => {
    const crds = (await rendered()).filter(({ kind }) => kind === "CustomResourceDefinition");
    const committed = KINDS.map(({ plural }) => fileOf(`crds/${plural}.yaml`)[0] as Rendered);
    expect(crds.map(({ spec }) => spec)).toEqual(
      crds.map(({ metadata }) => committed.find((each) => each.metadata.name === metadata.name)?.spec),
    );
    expect(crds).toHaveLength(KINDS.length);
    const kept = (objects: readonly Rendered[]) =>
      new Set(objects.map(({ metadata }) => metadata.annotations?.["helm.sh/resource-policy"]));
    expect(kept(crds)).toEqual(new Set(["keep"]));
    const gone = (await rendered({ crds: { keep: false } })).filter(({ kind }) => kind === "CustomResourceDefinition");
    expect(kept(gone)).toEqual(new Set([undefined]));
    expect(gone.every(({ metadata }) => metadata.annotations?.["sallyport.dev/schema-version"] === "1")).toBe(true);
  });

  test("in some namespaces: a Role in each, and nothing outside of them but CRDs, if values ask for these", async () => {
    const objects = await rendered(IN_TWO);
    const outside = objects.filter(({ kind }) => CLUSTER_SCOPED.includes(kind));
    expect(new Set(outside.map(({ kind }) => kind))).toEqual(new Set(["CustomResourceDefinition"]));
    const none = await rendered({ ...IN_TWO, crds: { enabled: false } }, { hooks: true });
    expect(
      none.filter(({ kind, metadata }) => CLUSTER_SCOPED.includes(kind) || metadata.namespace === undefined),
    ).toEqual([]);
    const roles = none.filter(({ kind, metadata }) => kind === "Role" && metadata.name === "sallyport-operator");
    expect(roles.map(({ metadata }) => metadata.namespace)).toEqual(["a", "b"]);
    const [role] = fileOf("operator/deploy/namespaced/role.yaml");
    for (const { rules } of roles) expect(rules).toEqual(role?.rules);
  });

  test("releases beside each other share no object", async () => {
    const names = async (release: string, values: object = {}) =>
      namesOf(
        await rendered(
          { crds: { enabled: false }, userRoles: { enabled: false }, ...values },
          { release, hooks: true },
        ),
      );
    const lists = await Promise.all([
      names("sallyport"),
      names("other"),
      names("third", { fullnameOverride: "of-its-own" }),
      names("fourth", { nameOverride: "gate" }),
    ]);
    const all = lists.flat();
    expect(new Set(all).size).toBe(all.length);
    expect(lists.map((list) => list.find((name) => name.startsWith("Deployment/")))).toEqual([
      "Deployment/sallyport-operator",
      "Deployment/other-sallyport-operator",
      "Deployment/of-its-own",
      "Deployment/fourth-gate",
    ]);
  });

  test("names fit however long a release is called", async () => {
    const objects = await rendered({ metricsService: { enabled: true } }, { release: "r".repeat(53), hooks: true });
    for (const { kind, metadata } of objects) {
      if (kind !== "CustomResourceDefinition") expect(metadata.name.length, metadata.name).toBeLessThanOrEqual(63);
      for (const label of Object.values(metadata.labels ?? {})) expect(label.length, label).toBeLessThanOrEqual(63);
    }
  });

  // biome-ignore format: a table
  test.each<[object, Partial<OperatorSettings>]>([
    [{}, { namespaces: [], clusterId: undefined, leaseName: "sallyport-operator", routerImage: `sallyport/router:${VERSION}`, controllerImage: `sallyport/controller:${VERSION}`, logLevel: "info", resyncMs: 600_000 }],
    [IN_TWO, { namespaces: ["a", "b"], clusterId: "team-a" }],
    [{ clusterId: "east" }, { namespaces: [], clusterId: "east" }],
    [{ fullnameOverride: "gate" }, { leaseName: "gate" }],
    [{ imageRegistry: "r.example:5000/team/" }, { routerImage: `r.example:5000/team/sallyport/router:${VERSION}`, controllerImage: `r.example:5000/team/sallyport/controller:${VERSION}` }],
    [{ routerImage: { repository: "r.example/router", tag: "1.2", digest: DIGEST } }, { routerImage: `r.example/router:1.2@${DIGEST}` }],
    [{ controllerImage: { digest: DIGEST } }, { controllerImage: `sallyport/controller@${DIGEST}` }],
    [{ logLevel: "debug", resync: "90s" }, { logLevel: "debug", resyncMs: 90_000 }],
    [{ extraEnv: [{ name: "SALLYPORT_LOG_LEVEL", value: "warn" }] }, { logLevel: "warn" }],
  ])("the operator understands %j", async (values, settings) => {
    expect(commandOf(named(await rendered(values), "Deployment", (values as { fullnameOverride?: string }).fullnameOverride))).toMatchObject({ name: "run", settings });
  });

  test("a platform may choose the users of all pods", async () => {
    const values = { podSecurityContext: { runAsUser: null, runAsGroup: null } };
    const objects = await rendered(values, { hooks: true });
    const pods = [
      named(objects, "Deployment").spec.template.spec,
      named(objects, "Pod", "sallyport-operator-check").spec,
      named(objects, "Job", "sallyport-operator-uninstall-check").spec.template.spec,
    ];
    for (const { securityContext } of pods)
      expect(securityContext).toEqual({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } });
    const [own] = (await rendered()).filter(({ kind }) => kind === "Deployment");
    expect(own?.spec.template.spec.securityContext).toMatchObject({ runAsUser: 65_532, runAsGroup: 65_532 });
  });

  test("what users add to the pods stands beside what the chart has", async () => {
    const placement = {
      runtimeClassName: "kata",
      dnsPolicy: "None",
      dnsConfig: { nameservers: ["192.0.2.53"] },
      hostAliases: [{ ip: "192.0.2.7", hostnames: ["ctrl.example"] }],
      tolerations: [{ operator: "Exists" }],
      nodeSelector: { disk: "ssd" },
      priorityClassName: "high",
      imagePullSecrets: [{ name: "registry" }],
    };
    const spread = {
      affinity: { nodeAffinity: {} },
      topologySpreadConstraints: [{ maxSkew: 2, topologyKey: "zone", whenUnsatisfiable: "DoNotSchedule" }],
    };
    const volume = { name: "corporate", configMap: { name: "corporate-ca" } };
    const mount = { name: "corporate", mountPath: "/etc/corporate" };
    const values = {
      ...placement,
      ...spread,
      volumes: [volume],
      volumeMounts: [mount],
      extraContainers: [{ name: "beside", image: "x" }],
      extraArgs: ["--log-level", "debug"],
      strategy: { type: "Recreate" },
      revisionHistoryLimit: 1,
      deploymentAnnotations: { note: "x" },
      commonLabels: { team: "net", "app.kubernetes.io/name": "other" },
      podLabels: { "app.kubernetes.io/instance": "other", tier: "1" },
      podAnnotations: { note: "y" },
      podDisruptionBudget: { maxUnavailable: "50%" },
      metricsService: { enabled: true, annotations: { scrape: "yes" } },
      serviceAccount: { labels: { account: "x" } },
    };
    const objects = await rendered(values, { hooks: true });
    const deployment = named(objects, "Deployment");
    const { metadata, spec: pod } = deployment.spec.template;
    expect(pod).toMatchObject({ ...placement, ...spread });
    expect(named(objects, "Pod", "sallyport-operator-check").spec).toMatchObject(placement);
    expect(pod.volumes).toEqual([expect.objectContaining({ name: "tmp" }), volume]);
    expect(containerOf(deployment)).toMatchObject({
      args: ["run", "--log-level", "debug"],
      volumeMounts: [{ name: "tmp" }, mount],
    });
    expect(pod.containers).toHaveLength(2);
    expect(commandOf(deployment)).toMatchObject({ name: "run", settings: { logLevel: "debug" } });
    expect(deployment.spec).toMatchObject({ strategy: { type: "Recreate" }, revisionHistoryLimit: 1 });
    expect(deployment.metadata.annotations).toEqual({ note: "x" });
    const own = { "app.kubernetes.io/name": "sallyport-operator", "app.kubernetes.io/instance": "sallyport" };
    expect(metadata.labels).toMatchObject({ ...own, team: "net", tier: "1" });
    expect(metadata.annotations).toMatchObject({ note: "y" });
    expect(deployment.spec.selector.matchLabels).toEqual(own);
    for (const each of objects)
      expect(each.metadata.labels, `${each.kind} ${each.metadata.name}`).toMatchObject({ team: "net" });
    expect(named(objects, "PodDisruptionBudget").spec.maxUnavailable).toBe("50%");
    expect(named(objects, "Service", "sallyport-operator-metrics").metadata.annotations).toEqual({ scrape: "yes" });
    expect(named(objects, "ServiceAccount").metadata.labels).toMatchObject({ account: "x" });
  });

  // biome-ignore format: a table
  test.each<[object, string]>([
    [{}, `sallyport/operator:${VERSION}`],
    [{ image: { tag: "7" } }, "sallyport/operator:7"],
    [{ image: { digest: DIGEST } }, `sallyport/operator@${DIGEST}`],
    [{ imageRegistry: "r.example", image: { repository: "gate" } }, `r.example/gate:${VERSION}`],
  ])("%j is the image of the operator and of its checks", async (values, image) => {
    const objects = await rendered(values, { hooks: true });
    const pods = [named(objects, "Deployment"), named(objects, "Pod", "sallyport-operator-check"), named(objects, "Job", "sallyport-operator-uninstall-check")];
    expect(pods.map((pod) => containerOf(pod).image)).toEqual([image, image, image]);
  });

  test("the hooks are commands that the program knows, in the same namespaces", async () => {
    const objects = await rendered({ ...IN_TWO, crds: { enabled: false } }, { hooks: true, namespace: "a" });
    expect(commandOf(named(objects, "Pod", "sallyport-operator-check"))).toMatchObject({
      name: "check",
      settings: { namespaces: ["a", "b"], operator: new URL("http://sallyport-operator-check.a.svc:8080") },
    });
    const service = named(objects, "Service", "sallyport-operator-check");
    expect(service.spec.selector).toEqual(named(objects, "Deployment").spec.selector.matchLabels);
    expect(commandOf(named(objects, "Job", "sallyport-operator-uninstall-check"))).toMatchObject({
      name: "uninstall-check",
      settings: { namespaces: ["a", "b"] },
    });
    const without = await rendered({ uninstall: { refuseWhileResources: false } }, { hooks: true });
    expect(without.some(({ kind }) => kind === "Job")).toBe(false);
  });

  test("what is only there when it is asked for", async () => {
    const asked = {
      networkPolicy: { enabled: true, metricsFrom: [{ namespaceSelector: {} }] },
      serviceMonitor: { enabled: true, labels: { release: "prometheus" } },
    };
    const usual = new Set(namesOf(await rendered()));
    const objects = await rendered(asked);
    expect(namesOf(objects).filter((name) => !usual.has(name))).toEqual([
      "NetworkPolicy/sallyport-operator",
      "Service/sallyport-operator-metrics",
      "ServiceMonitor/sallyport-operator",
    ]);
    const pods = named(objects, "Deployment").spec.selector.matchLabels;
    const policy = named(objects, "NetworkPolicy").spec;
    expect(policy.podSelector.matchLabels).toEqual(pods);
    expect(policy.ingress[0].from).toHaveLength(2);
    expect(named(objects, "Service", "sallyport-operator-metrics").metadata.labels).toMatchObject(pods);
    expect(named(objects, "ServiceMonitor").metadata.labels).toMatchObject({ release: "prometheus" });
    const less = await rendered({
      podDisruptionBudget: { enabled: false },
      userRoles: { enabled: false },
      serviceAccount: { create: false, name: "mine" },
    });
    expect(
      namesOf(less).filter((name) => /PodDisruption|ServiceAccount|sallyport-(view|edit|tenant)/.test(name)),
    ).toEqual([]);
    expect(named(less, "Deployment").spec.template.spec.serviceAccountName).toBe("mine");
  });
});

describe("is refused, with the path:", () => {
  // biome-ignore format: a table
  test.each<[object, RegExp]>([
    [{ imag: {} }, /at '': additional properties 'imag' not allowed/],
    [{ image: { tga: "1" } }, /at '\/image': additional properties 'tga' not allowed/],
    [{ image: { tag: 1.2 } }, /at '\/image\/tag': got number, want string/],
    [{ image: { tag: "a:b" } }, /at '\/image\/tag': 'a:b' does not match pattern/],
    [{ image: { digest: "abc" } }, /at '\/image\/digest': 'abc' does not match pattern/],
    [{ image: { pullPolicy: "Sometimes" } }, /at '\/image\/pullPolicy': value must be one of 'Always', 'IfNotPresent', 'Never'/],
    [{ routerImage: { pullPolicy: "Never" } }, /at '\/routerImage': additional properties 'pullPolicy' not allowed/],
    [{ imagePullSecrets: ["registry"] }, /at '\/imagePullSecrets\/0': got string, want object/],
    [{ replicas: "two" }, /at '\/replicas': got string, want integer/],
    [{ replicas: -1 }, /at '\/replicas': minimum: got -1, want 0/],
    [{ watchNamespaces: "a" }, /at '\/watchNamespaces': got string, want array/],
    [{ watchNamespaces: ["a", "A_b"], clusterId: "x" }, /at '\/watchNamespaces\/1': 'A_b' does not match pattern/],
    [{ watchNamespaces: ["a", "a"], clusterId: "x" }, /at '\/watchNamespaces': items at 0 and 1 are equal/],
    [{ watchNamespaces: ["a"] }, /clusterId: expected an id that no other operator of the same networks has/],
    [{ revisionHistoryLimit: null }, /values are those of a former release.* upgrade with --reset-then-reuse-values/],
    [{ serviceAccount: { create: false, name: "mine", labels: null }, revisionHistoryLimit: null, podSecurityContext: null }, /values are those of a former release/],
    [{ clusterId: "change-me" }, /clusterId: expected an id of your own/],
    [{ clusterId: "a b" }, /at '\/clusterId': 'a b' does not match pattern/],
    [{ crds: { install: true } }, /at '\/crds': additional properties 'install' not allowed/],
    [{ crds: { keep: "no" } }, /at '\/crds\/keep': got string, want boolean/],
    [{ serviceAccount: { create: false } }, /serviceAccount\.name: expected the name of a ServiceAccount that is there/],
    [{ resources: { limit: {} } }, /at '\/resources': additional properties 'limit' not allowed/],
    [{ tolerations: [{ effect: "NoSchedul" }] }, /at '\/tolerations\/0\/effect'/],
    [{ nodeSelector: { a: true } }, /at '\/nodeSelector\/a': got boolean, want string/],
    [{ extraEnv: [{ value: "x" }] }, /at '\/extraEnv\/0': missing property 'name'/],
    [{ extraEnv: { HTTPS_PROXY: "x" } }, /at '\/extraEnv': got object, want array/],
    [{ logLevel: "trace" }, /at '\/logLevel': value must be one of/],
    [{ resync: "10" }, /at '\/resync': '10' does not match pattern/],
    [{ serviceMonitor: { interval: "often" } }, /at '\/serviceMonitor\/interval'/],
    [{ nameOverride: "Not_a_name" }, /at '\/nameOverride'/],
    [{ networkPolicy: { metricsFrom: [{ pods: {} }] } }, /at '\/networkPolicy\/metricsFrom\/0': additional properties 'pods' not allowed/],
  ])("%j", async (values, said) => {
    const refusal = await rendered(values).then(() => undefined, (error: unknown) => error);
    expect(refusal).toBeInstanceOf(HelmError);
    expect((refusal as HelmError).stderr).toMatch(said);
  });
});

test("an old Kubernetes is refused", async () => {
  await expect(helm(["template", "s", CHART, "--kube-version", "1.28.0"])).rejects.toThrow(
    "chart requires kubeVersion: >=1.29.0-0 which is incompatible with Kubernetes v1.28.0",
  );
  await helm(["template", "s", CHART, "--kube-version", "1.29.3-provider.1"]);
  const chart = parse(readFileSync(join(ROOT, CHART, "Chart.yaml"), "utf8")) as { version: string };
  expect(chart.version).toBe(VERSION);
});
