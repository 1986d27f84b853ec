import { describe, expect, test } from "vitest";
import { edgeRouter } from "../testing/edge-router.ts";
import { type CheckedPod, restrictedViolations } from "../testing/pod-security.ts";
import { configMap, enrollmentSecret, statefulSet, type WorkloadInput } from "./workload.ts";

// biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every shape
type Any = any;

const INPUT: WorkloadInput = {
  ordinal: 1,
  id: "r-1",
  configHash: "0123456789abcdef",
  image: "sallyport/router:1",
  areControllersChosen: false,
  restart: undefined,
};
const render = (spec: object = {}, input: Partial<WorkloadInput> = {}): Any =>
  statefulSet(edgeRouter(spec), { ...INPUT, ...input });
const podOf = (spec: object = {}, input: Partial<WorkloadInput> = {}): Any => render(spec, input).spec.template.spec;
const router = (spec: object = {}, input: Partial<WorkloadInput> = {}): Any => podOf(spec, input).containers[0];

describe("the StatefulSet of a router", () => {
  test("has names, labels and owner that never change", () => {
    const set = render();
    const selector = {
      "app.kubernetes.io/name": "edge-router",
      "sallyport.dev/owner-name": "eu",
      "sallyport.dev/ordinal": "1",
    };
    const claimLabels = {
      ...selector,
      "app.kubernetes.io/component": "router",
      "app.kubernetes.io/part-of": "overlay",
      "app.kubernetes.io/managed-by": "sallyport",
      "sallyport.dev/owner-kind": "EdgeRouter",
    };
    const labels = { ...claimLabels, "app.kubernetes.io/instance": "eu" };
    const owner = { apiVersion: "sallyport.dev/v1alpha1", kind: "EdgeRouter", name: "eu", uid: "uid-eu" };
    const claim = { accessModes: ["ReadWriteOnce"], resources: { requests: { storage: "50Mi" } } };
    expect(set.metadata).toEqual({
      name: "eu-1",
      namespace: "edge",
      labels,
      ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }],
    });
    expect(set.spec).toMatchObject({
      replicas: 1,
      serviceName: "eu",
      podManagementPolicy: "Parallel",
      persistentVolumeClaimRetentionPolicy: { whenDeleted: "Retain", whenScaled: "Retain" },
      selector: { matchLabels: selector },
      template: { metadata: { labels, annotations: { "sallyport.dev/config-hash": "0123456789abcdef" } } },
      volumeClaimTemplates: [{ metadata: { name: "data", labels: claimLabels }, spec: claim }],
    });
  });

  test("enrolls without a shell, with the token in the first container only", () => {
    const pod = podOf();
    const [file, token] = ["/etc/sallyport/router.yml", "/etc/sallyport-enrollment/enrollment.jwt"];
    const args = ["enroll", file, "--if-needed", "--jwt", token, "--expect-id", "r-1"];
    expect(pod.initContainers).toEqual([expect.objectContaining({ name: "enroll", args })]);
    expect(pod.initContainers[0]).not.toHaveProperty("command");
    expect(pod.containers[0].args).toEqual(["run", "/etc/sallyport/router.yml"]);
    const mounts = (container: Any) =>
      container.volumeMounts.map(
        ({ name, mountPath, readOnly }: Any) => `${name}:${mountPath}${readOnly ? ":ro" : ""}`,
      );
    expect(mounts(pod.containers[0])).toEqual(["data:/var/lib/sallyport", "config:/etc/sallyport:ro", "tmp:/tmp"]);
    expect(mounts(pod.initContainers[0])).toEqual([
      ...mounts(pod.containers[0]),
      "enrollment:/etc/sallyport-enrollment:ro",
    ]);
    expect(pod.volumes).toContainEqual(
      expect.objectContaining({
        name: "enrollment",
        secret: expect.objectContaining({ secretName: "eu-1-enrollment", optional: true }),
      }),
    );
  });

  test("is asked by probes that no controller can fail", () => {
    const { startupProbe, livenessProbe, readinessProbe } = router();
    for (const probe of [startupProbe, livenessProbe])
      expect(probe.httpGet).toEqual({ path: "/health-checks/live", port: "health", scheme: "HTTPS" });
    expect(readinessProbe.httpGet.path).toBe("/health-checks/ready");
    expect(startupProbe.periodSeconds * startupProbe.failureThreshold).toBe(300);
  });

  // biome-ignore format: a table
  test.each<[string, object, (pod: Any) => unknown, unknown]>([
    ["gives the router time to empty itself", { drainSeconds: 60 }, (pod) => pod.terminationGracePeriodSeconds, 75],
    ["has no token of the API server", {}, (pod) => [pod.automountServiceAccountToken, pod.serviceAccountName], [false, "eu"]],
    ["takes another account", { template: { spec: { serviceAccountName: "x" } } }, (pod) => pod.serviceAccountName, "x"],
    ["has ports of the spec", { edge: { port: 4000 } }, (pod) => pod.containers[0].ports.map(({ containerPort }: Any) => containerPort),
      [4000, 8081]],
    ["has ports of services that it offers", { tunneler: { enabled: true, mode: "proxy", proxyServices: ["b:53:udp", "a:80"] } },
      (pod) => pod.containers[0].ports.slice(2), [{ containerPort: 80, protocol: "TCP" }, { containerPort: 53, protocol: "UDP" }]],
    [
      "has a port of the node",
      { exposure: { type: "HostPort", port: 443 } },
      (pod) => [pod.containers[0].ports[0].hostPort, pod.containers[0].env, pod.initContainers[0].env.length],
      [443, [{ name: "HOST_IP", valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "status.hostIP" } } }], 1],
    ],
    ["needs no address of the node when it has a name", { exposure: { type: "HostPort", hostname: "x" } }, (pod) => pod.containers[0].env, undefined],
    ["pulls as the spec says", { image: "a/b:c", imagePullPolicy: "Never", imagePullSecrets: [{ name: "s" }] },
      (pod) => [pod.containers[0].imagePullPolicy, pod.imagePullSecrets], ["Never", [{ name: "s" }]]],
    [
      "is spread softly by itself",
      {},
      (pod) =>
        pod.topologySpreadConstraints.map(({ topologyKey, whenUnsatisfiable }: Any) => [
          topologyKey,
          whenUnsatisfiable,
        ]),
      [["topology.kubernetes.io/zone", "ScheduleAnyway"], ["kubernetes.io/hostname", "ScheduleAnyway"]],
    ],
    [
      "takes resources, variables, volumes and more containers",
      {
        template: {
          spec: {
            resources: { requests: { cpu: "200m" } },
            env: [{ name: "A", value: "b" }],
            volumes: [{ name: "v", emptyDir: {} }],
            volumeMounts: [{ name: "v", mountPath: "/v" }],
            containers: [{ name: "side", image: "x" }],
            initContainers: [{ name: "first", image: "x" }],
          },
        },
      },
      (pod) => [
        pod.containers[0].resources,
        pod.containers[0].env,
        pod.volumes.at(-1).name,
        pod.containers[0].volumeMounts.at(-1).mountPath,
        pod.containers.map(({ name }: Any) => name),
        pod.initContainers.map(({ name }: Any) => name),
      ],
      [{ requests: { cpu: "200m" } }, [{ name: "A", value: "b" }], "v", "/v", ["router", "side"], ["first", "enroll"]],
    ],
    [
      "lays a security context over its own",
      { template: { spec: { securityContext: { runAsUser: 7, fsGroupChangePolicy: null } } } },
      (pod) => pod.securityContext,
      { runAsNonRoot: true, runAsUser: 7, runAsGroup: 65532, fsGroup: 65532, seccompProfile: { type: "RuntimeDefault" } },
    ],
  ])("%s", (_name, spec, look, wanted) => expect(look(podOf(spec))).toEqual(wanted));

  test("is placed as the template says", () => {
    const spec = {
      ...{ nodeSelector: { a: "b" }, priorityClassName: "p", affinity: {}, topologySpreadConstraints: [] },
      ...{ hostNetwork: true, dnsPolicy: "Default" },
    };
    expect(podOf({ template: { spec } })).toMatchObject(spec);
  });

  test.each<[object, string | undefined]>([
    [{}, undefined],
    [{ hostNetwork: true }, "ClusterFirstWithHostNet"],
    [{ hostNetwork: true, dnsPolicy: "Default" }, "Default"],
  ])("in the network of its node it knows the names of the cluster, unless told otherwise: %j", (spec, wanted) => {
    expect(podOf({ template: { spec } }).dnsPolicy).toBe(wanted);
  });

  test("keeps its own labels and annotations, whatever the template says", () => {
    const metadata = {
      labels: { "app.kubernetes.io/name": "mine", team: "x" },
      annotations: { "sallyport.dev/config-hash": "mine", a: "b" },
    };
    const made = render({ template: { metadata } }, { restart: "again" }).spec.template.metadata;
    expect(made.labels).toMatchObject({ "app.kubernetes.io/name": "edge-router", team: "x" });
    expect(made.annotations).toEqual({
      "sallyport.dev/config-hash": INPUT.configHash,
      "sallyport.dev/restart-requested-at": "again",
      a: "b",
    });
  });

  test("keeps a restart that the template asks for", () => {
    const annotations = { "sallyport.dev/restart-requested-at": "mine" };
    const made = render({ template: { metadata: { annotations } } }).spec.template.metadata;
    expect(made.annotations).toEqual({ ...annotations, "sallyport.dev/config-hash": INPUT.configHash });
  });

  test("keeps the size of its claims, which can't be changed, and dials chosen controllers", () => {
    const set = render({ storage: { size: "1Gi" } }, { made: { claimSize: "50Mi" }, areControllersChosen: true });
    expect(set.spec.volumeClaimTemplates[0].spec.resources.requests.storage).toBe("50Mi");
    expect(set.spec.template.spec.initContainers[0].args).toContain("--configured-endpoints");
  });

  test("is not changed by what concerns the entity, the Services or the guards", () => {
    const others = {
      roleAttributes: ["a"],
      cost: 3,
      noTraversal: true,
      disabled: true,
      appData: { a: 1 },
      tags: { a: "b" },
      replicas: 4,
      deletionPolicy: "Orphan",
      networkPolicy: { enabled: true },
      podDisruptionBudget: { enabled: false },
      updateStrategy: { maxUnavailable: 2 },
      exposure: { type: "LoadBalancer", hostname: "{ordinal}.x", annotations: { a: "b" } },
    };
    expect(render(others)).toEqual(render());
  });
});

describe("Pod Security restricted", () => {
  const violations = (spec: object) => restrictedViolations(podOf(spec) as CheckedPod);
  test.each<[string, object, string[]]>([
    ["by default", {}, []],
    ["hosting", { tunneler: { enabled: true } }, []],
    ["offering services", { tunneler: { enabled: true, mode: "proxy", proxyServices: ["a:80"] } }, []],
    ["with a load balancer", { exposure: { type: "LoadBalancer" } }, []],
    [
      "intercepting",
      { tunneler: { enabled: true, mode: "tproxy" } },
      ["enroll: runAsNonRoot", "enroll: runAsUser", "router: runAsNonRoot", "router: runAsUser", "router: NET_ADMIN"],
    ],
    ["with a port of the node", { exposure: { type: "HostPort" } }, ["router: hostPort"]],
    ["in the network of the node", { template: { spec: { hostNetwork: true } } }, ["hostNetwork"]],
  ])("%s", (_name, spec, wanted) => expect(violations(spec)).toEqual(wanted));

  test.each<[string, string[] | undefined]>([
    ["host", undefined],
    ["proxy", undefined],
    ["tproxy", ["NET_ADMIN", "NET_BIND_SERVICE"]],
  ])("the tunneler in mode %s adds the capabilities that it needs, and enrollment none", (mode, add) => {
    const { containers, initContainers } = podOf({ tunneler: { enabled: true, mode } });
    const capabilities = [...containers, ...initContainers].map(({ securityContext }) => securityContext.capabilities);
    expect(capabilities).toEqual([add === undefined ? { drop: ["ALL"] } : { drop: ["ALL"], add }, { drop: ["ALL"] }]);
  });

  test("nothing but volumes is written to", () => {
    const { containers, initContainers } = podOf();
    for (const { securityContext } of [...containers, ...initContainers])
      expect(securityContext.readOnlyRootFilesystem).toBe(true);
  });
});

describe("other children", () => {
  test("hold the file and, in a Secret, the token", () => {
    expect(configMap(edgeRouter(), 0, "v: 3\n")).toMatchObject({
      metadata: { name: "eu-0-config" },
      data: { "router.yml": "v: 3\n" },
    });
    expect(enrollmentSecret(edgeRouter(), 0, "jwt")).toMatchObject({
      metadata: { name: "eu-0-enrollment" },
      type: "Opaque",
      data: { "enrollment.jwt": "and0" },
    });
  });
});
