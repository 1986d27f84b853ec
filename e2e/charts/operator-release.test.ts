/**
 * Releases of the operator's chart on a real API server with its controllers. There are no nodes: what pods would do, a test does, by the program with the
 * rights of the release's service account. Releases with real pods are scenarios.
 */
import { execFile, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { sample } from "../../packages/resources/src/kinds/testing/samples.ts";
import { Cluster } from "../cluster/cluster.ts";
import { kindsServed } from "../cluster/kinds-served.ts";
import { hasCluster } from "../cluster/tools.ts";
import { eventually } from "../network/eventually.ts";
import { HelmError, helm, toolPath } from "./helm.ts";
import { documents } from "./network-chart.ts";
import { type OpenApi, writeSchemas } from "./openapi-schemas.ts";
import { CHART, containerOf, named, type Rendered, ROOT, rendered, renderedText } from "./operator-chart.ts";

const SYSTEM = "sallyport-system";
/** A pod's commands take seconds; on a busy machine many of them. */
const PATIENCE_MS = 120_000;
const IN_TWO = { watchNamespaces: ["a", "b"], clusterId: "team-a", crds: { enabled: false } };
/** What Helm and its users know a release by, and what keeps CRDs: manifests do without. */
const OF_RELEASES = [
  "app.kubernetes.io/instance",
  "app.kubernetes.io/managed-by",
  "app.kubernetes.io/version",
  "helm.sh/chart",
  "helm.sh/resource-policy",
];
const EVERYTHING = {
  networkPolicy: { enabled: true, metricsFrom: [{ namespaceSelector: {} }] },
  metricsService: { enabled: true },
  imagePullSecrets: [{ name: "registry" }],
  nodeSelector: { "kubernetes.io/os": "linux" },
  tolerations: [{ key: "dedicated", operator: "Exists", effect: "NoSchedule" }],
  affinity: { podAntiAffinity: {} },
  podAnnotations: { note: "yes" },
  extraEnv: [{ name: "A", value: "b" }],
  resources: { limits: { cpu: 1, memory: "1Gi" } },
  priorityClassName: "system-cluster-critical",
  podSecurityContext: { runAsUser: null, fsGroup: 1000 },
  securityContext: { runAsNonRoot: true },
  commonLabels: { team: "net" },
  deploymentAnnotations: { note: "yes" },
  strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } },
  dnsPolicy: "None",
  dnsConfig: { nameservers: ["192.0.2.53"], options: [{ name: "ndots", value: "2" }] },
  hostAliases: [{ ip: "192.0.2.7", hostnames: ["ctrl.example"] }],
  extraArgs: ["--log-level", "debug"],
  volumes: [{ name: "corporate", configMap: { name: "corporate-ca" } }],
  volumeMounts: [{ name: "corporate", mountPath: "/etc/corporate", readOnly: true }],
  extraContainers: [
    {
      name: "beside",
      image: "example.com/beside:1",
      securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
    },
  ],
  podDisruptionBudget: { maxUnavailable: "50%" },
  serviceAccount: { labels: { team: "net" } },
};

const run = promisify(execFile);

describe.skipIf(!hasCluster)("a release of the operator", { timeout: 300_000 }, () => {
  let cluster: Cluster;
  let scratch: string;
  let schemas: string | undefined;
  const kubectl = async (...args: string[]) => await cluster.kubectl(args);
  const withHelm = async (values: object, ...args: string[]) =>
    await helm([...args, "--values", "-"], { kubeconfig: cluster.kubeconfig, stdin: JSON.stringify(values) });

  beforeAll(async () => {
    scratch = mkdtempSync(join(tmpdir(), "charts-"));
    cluster = await Cluster.start({ nodes: 0 });
    for (const namespace of [SYSTEM, "a", "b"]) {
      await kubectl("create", "namespace", namespace);
      await kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted");
    }
  });
  afterAll(async () => {
    await cluster?.close();
    if (scratch !== undefined) rmSync(scratch, { recursive: true, force: true });
  });

  /** Runs the program with the rights of a service account, as a container of the chart would; resolves with the exit status and what it printed. */
  async function program(args: readonly string[], serviceAccount: string, env: Readonly<Record<string, string>> = {}) {
    const kubeconfig = await cluster.kubeconfigOf(serviceAccount, SYSTEM);
    const ran = run(process.execPath, [join(ROOT, "operator/src/main.ts"), ...args], {
      env: { ...process.env, ...env, KUBECONFIG: kubeconfig, POD_NAMESPACE: SYSTEM },
    });
    return await ran.then(
      ({ stdout }) => ({ status: 0, stdout }),
      (error: { code: number; stdout: string; stderr: string }) => ({
        status: error.code,
        stdout: error.stdout + error.stderr,
      }),
    );
  }

  /** Names and versions of all that belongs to the release; those of what others write all the time are left out. */
  async function versions(): Promise<Record<string, string>> {
    const kinds = "crd,clusterrole,clusterrolebinding,role,rolebinding,serviceaccount,deployment,poddisruptionbudget";
    const selector = "--selector=app.kubernetes.io/instance=sallyport";
    const { items } = JSON.parse(await kubectl("get", kinds, "-A", selector, "--output=json")) as {
      items: (Rendered & { metadata: { generation?: number; managedFields?: unknown; resourceVersion: string } })[];
    };
    return Object.fromEntries(
      items.map(({ kind, metadata }) => [
        `${kind}/${metadata.name}`,
        // Controllers write the status of these: their generation tells whether Helm did.
        String(metadata.generation ?? metadata.resourceVersion),
      ]),
    );
  }

  test("has the same objects as the manifests of operator/deploy/cluster", async () => {
    const manifests = documents(
      await kubectl("kustomize", join(ROOT, "operator/deploy/cluster")),
    ) as unknown as Rendered[];
    const wanted = manifests.filter(({ kind }) => kind !== "Namespace").map(bare);
    expect(byName((await rendered()).map(bare))).toEqual(byName(wanted));
  });

  test.each<[string, object]>([
    ["default values", {}],
    ["all that can be asked for", EVERYTHING],
    ["some namespaces", IN_TWO],
  ])("fits the schemas of the API server, with its hooks: %s", async (_, values) => {
    schemas ??= writeSchemas(
      JSON.parse(await kubectl("get", "--raw", "/openapi/v2")) as OpenApi,
      join(scratch, "schemas"),
    );
    const place = schemas;
    const validate = (manifests: string) =>
      spawnSync(toolPath("kubeconform"), ["-strict", "-summary", "-schema-location", place, "-"], {
        input: manifests,
        encoding: "utf8",
      });
    const manifests = await renderedText(values, { hooks: true });
    const { status, stdout } = validate(manifests);
    expect(stdout).toMatch(/Valid: [1-9]\d*, Invalid: 0, Errors: 0, Skipped: 0/);
    expect(status).toBe(0);
    // And would have said so.
    expect(validate(manifests.replace("terminationGracePeriodSeconds:", "terminationGraceSeconds:")).stdout).toMatch(
      /Deployment sallyport-operator is invalid: .*terminationGraceSeconds/s,
    );
  });

  test("has pods that a namespace for restricted pods takes", async () => {
    const objects = await rendered(EVERYTHING, { hooks: true });
    const podOf = (object: Rendered): Rendered => ({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "probe", namespace: "a" },
      spec: {
        ...(object.spec.template?.spec ?? object.spec),
        priorityClassName: undefined,
        serviceAccountName: "default",
      },
    });
    const admitted = async (pod: Rendered) =>
      await cluster.attempt(["create", "--dry-run=server", "--validate=strict", "-f", "-"], JSON.stringify(pod));
    const pods = [
      named(objects, "Deployment"),
      named(objects, "Pod", "sallyport-operator-check"),
      named(objects, "Job", "sallyport-operator-uninstall-check"),
    ].map(podOf);
    for (const pod of pods) expect(await admitted(pod)).toMatchObject({ code: 0, stderr: "" });
    const [pod] = pods as [Rendered];
    const rooted = { ...pod, spec: { ...pod.spec, securityContext: { runAsUser: 0 } } };
    expect((await admitted(rooted)).stderr).toContain('violates PodSecurity "restricted:latest"');
  });

  test("says in its notes what is next, and in some namespaces what an administrator has to do", async () => {
    const notes = async (values: object) =>
      await withHelm(values, "install", "sallyport", CHART, "--dry-run=client", "--namespace", SYSTEM);
    const all = await notes({});
    expect(all).toContain(`helm test sallyport -n ${SYSTEM}`);
    expect(all).toContain("kubectl delete overlay --all --all-namespaces");
    expect(all).not.toContain("crds.yaml");
    const some = await notes(IN_TWO);
    expect(some).toContain("kubectl apply --server-side -f crds.yaml");
    expect(some).toContain("Its cluster id is team-a");
    expect(some).toContain("kubectl delete overlay --all -n b");
  });

  describe("from its installation to its end", () => {
    const account = "sallyport-operator";

    test("in some namespaces, before there are CRDs: its check says so, and which right is missing", async () => {
      await withHelm(IN_TWO, "install", "sallyport", CHART, "--namespace", SYSTEM);
      const args = ["check", "--namespaces", "a,b"];
      const before = await program(args, account);
      expect(before.stdout).toContain("[-]kinds failed: the kind Network of sallyport.dev/v1alpha1 is not served");
      expect(before.stdout).toMatch(/\[\+\]rights ok: all \d+ rights are given in namespaces a, b/);
      expect(before.status).toBe(1);
      const outside = await program(["check", "--namespaces", "a,default"], account);
      expect(outside.stdout).toMatch(
        /\[-\]rights failed: may not get networks\.sallyport\.dev in the namespace default, /,
      );
      await kubectl("apply", "--server-side", "-k", join(ROOT, "crds"));
      await kindsServed(cluster);
      expect(await program(args, account)).toMatchObject({ status: 0 });
      expect(await program(["uninstall-check", "--namespaces", "a,b"], account)).toMatchObject({ status: 0 });
      await helm(["uninstall", "sallyport", "--namespace", SYSTEM, "--no-hooks"], { kubeconfig: cluster.kubeconfig });
      await kubectl("delete", "-k", join(ROOT, "crds"));
    });

    test("for all namespaces: it has every right that it checks, and an upgrade with the same values changes nothing", async () => {
      await withHelm({}, "install", "sallyport", CHART, "--namespace", SYSTEM);
      await kindsServed(cluster);
      const checked = await program(["check"], account);
      expect(checked.stdout).toContain("[+]kinds ok: all 10 kinds of sallyport.dev/v1alpha1 are installed");
      expect(checked.stdout).toMatch(/\[\+\]rights ok: all \d+ rights are given in all namespaces/);
      expect(checked.status).toBe(0);
      const before = await versions();
      expect(Object.keys(before).length).toBeGreaterThan(15);
      await withHelm({}, "upgrade", "sallyport", CHART, "--namespace", SYSTEM);
      expect(await versions()).toEqual(before);
      await withHelm({ logLevel: "debug" }, "upgrade", "sallyport", CHART, "--namespace", SYSTEM);
      const changed = Object.entries(await versions()).filter(([name, version]) => before[name] !== version);
      expect(changed.map(([name]) => name)).toEqual([`Deployment/${account}`]);
    });

    /** What a node would do: runs the pod of the check before the uninstall, and writes down how it ended. */
    async function playNode(): Promise<string> {
      const selector = `batch.kubernetes.io/job-name=${account}-uninstall-check`;
      const pod = await eventually(
        "the pod of the check",
        async () => {
          // A check that failed leaves its Job and its pod, for its log, until the next one.
          const pending = "--field-selector=status.phase=Pending";
          const list = await kubectl("get", "pods", "-n", SYSTEM, "-l", selector, pending, "--output=json");
          return (JSON.parse(list) as { items: Rendered[] }).items[0];
        },
        PATIENCE_MS,
      );
      const { status, stdout } = await program(containerOf(pod).args, account);
      const patch = JSON.stringify({ status: { phase: status === 0 ? "Succeeded" : "Failed" } });
      await kubectl(
        "patch",
        "pod",
        pod.metadata.name,
        "-n",
        SYSTEM,
        "--subresource=status",
        "--type=merge",
        "-p",
        patch,
      );
      return stdout;
    }
    const uninstall = async () =>
      await Promise.all([
        helm(["uninstall", "sallyport", "--namespace", SYSTEM], { kubeconfig: cluster.kubeconfig }).catch(
          (error: unknown) => error,
        ),
        playNode(),
      ]);

    test("an uninstall is refused while resources are left, and takes nothing away", async () => {
      await cluster.apply(JSON.stringify(sample("Identity")));
      const before = await versions();
      const [refused, printed] = await uninstall();
      expect(refused).toBeInstanceOf(HelmError);
      expect((refused as HelmError).stderr).toMatch(/BackoffLimitExceeded|job failed/);
      expect(printed).toMatch(/^1 resources are left, .*: Identity default\/sample\n/);
      expect(await versions()).toEqual(before);
    });

    test("then the release can be kept by a rollback, and be upgraded", async () => {
      await helm(["rollback", "sallyport", "--namespace", SYSTEM], { kubeconfig: cluster.kubeconfig });
      await withHelm({}, "upgrade", "sallyport", CHART, "--namespace", SYSTEM);
      expect(await helm(["status", "sallyport", "--namespace", SYSTEM], { kubeconfig: cluster.kubeconfig })).toContain(
        "STATUS: deployed",
      );
    });

    test("an uninstall after the resources leaves the CRDs and nothing else", async () => {
      await kubectl("delete", "overlay", "--all", "--all-namespaces");
      const [done, printed] = await uninstall();
      expect(done).toContain('release "sallyport" uninstalled');
      expect(printed).toBe("no resources are left\n");
      expect(Object.keys(await versions()).every((name) => name.startsWith("CustomResourceDefinition/"))).toBe(true);
      expect(Object.keys(await versions())).toHaveLength(10);
      const kinds = "all,roles,rolebindings,secrets";
      const rest = () => kubectl("get", kinds, "-n", SYSTEM, "-l", "helm.sh/chart", "-o", "name");
      // The pod of a job goes after it.
      await eventually("nothing is left", async () => (await rest()) === "");
      // And they are taken over by the next release.
      await withHelm({}, "install", "sallyport", CHART, "--namespace", SYSTEM);
    });
  });
});

/** An object without what belongs to a release, wherever labels stand in it. */
function bare(object: Rendered): Rendered {
  return JSON.parse(
    JSON.stringify(object, (key, value: unknown) =>
      OF_RELEASES.includes(key) || (key === "annotations" && isEmpty(value)) ? undefined : value,
    ),
  ) as Rendered;
}

const isEmpty = (value: unknown): boolean => typeof value === "object" && Object.keys(value ?? {}).length === 0;

const byName = (objects: readonly Rendered[]) =>
  Object.fromEntries(
    objects.map((object) => [`${object.kind}/${object.metadata.namespace ?? ""}/${object.metadata.name}`, object]),
  );
