import { describe, expect, test } from "vitest";
import type { KubeObject } from "../../../kube/kinds.ts";
import { managedNetwork } from "../testing/managed.ts";
import { renderClaim } from "./children.ts";
import { type PodInputs, renderStatefulSet } from "./pod.ts";

type Json = Readonly<Record<string, unknown>>;
interface PodTemplate {
  readonly metadata: { readonly labels: Json; readonly annotations: Json };
  readonly spec: Json & {
    readonly containers: readonly Json[];
    readonly initContainers: readonly Json[];
    readonly volumes: readonly Json[];
    readonly securityContext: Json;
  };
}

const INPUTS = { image: "sallyport/controller:1", configHash: "abc", hasCertificate: false };
const specOf = (object: KubeObject | undefined): Json => (object as unknown as { readonly spec: Json }).spec;

function podOf(changes: Json = {}, inputs: Partial<PodInputs> = {}, annotations = {}): PodTemplate {
  const { resource, managed } = managedNetwork(changes, annotations);
  return specOf(renderStatefulSet(resource, managed, { ...INPUTS, ...inputs })).template as PodTemplate;
}

describe("the pod of a managed controller", () => {
  test("meets the restricted Pod Security Standard", () => {
    const { spec } = podOf();
    expect(spec).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: {
        runAsNonRoot: true,
        runAsUser: 65_532,
        fsGroup: 65_532,
        seccompProfile: { type: "RuntimeDefault" },
      },
    });
    for (const container of [...spec.containers, ...spec.initContainers]) {
      expect(container.securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
      expect(container.terminationMessagePolicy).toBe("FallbackToLogsOnError");
    }
    for (const { name, ...volume } of spec.volumes) {
      expect(["configMap", "secret", "persistentVolumeClaim", "emptyDir"]).toContain(Object.keys(volume)[0]);
      expect(name).toBeDefined();
    }
  });

  test("leaves to the platform what the spec takes away", () => {
    const securityContext = { runAsUser: null, runAsGroup: null, fsGroup: null };
    expect(podOf({ template: { spec: { securityContext } } }).spec.securityContext).toEqual({
      runAsNonRoot: true,
      fsGroupChangePolicy: "OnRootMismatch",
      seccompProfile: { type: "RuntimeDefault" },
    });
  });

  test("runs subcommands of the program, with every secret in a file", () => {
    const { spec } = podOf();
    expect(spec.initContainers.map(({ args }) => args)).toEqual([
      ["init", "--config", "/etc/sallyport/controller/controller.yml"],
    ]);
    expect(spec.containers.map(({ args, command }) => [args, command])).toEqual([
      [["run", "/etc/sallyport/controller/controller.yml"], undefined],
    ]);
    expect(JSON.stringify(spec)).not.toMatch(/secretKeyRef|valueFrom/);
    const mounted = (container: Json | undefined) =>
      ((container?.volumeMounts ?? []) as Json[]).map(({ name }) => name);
    expect(mounted(spec.initContainers[0])).toContain("admin");
    expect(mounted(spec.containers[0])).not.toContain("admin");
  });

  test("makes the network with the type of key that the spec names", () => {
    const argsOf = (changes: object) => podOf(changes as Json).spec.initContainers.map(({ args }) => args);
    expect(argsOf({ keyType: "rsa" })).toEqual([
      ["init", "--config", "/etc/sallyport/controller/controller.yml", "--key-type", "rsa"],
    ]);
    // As before the field was there: controllers do not restart.
    expect(argsOf({ keyType: "ec" })).toEqual(argsOf({}));
  });

  test("every mount has its volume, and every volume is mounted", () => {
    for (const changes of [{}, { database: { urlSecretRef: { name: "db", key: "uri" } } }]) {
      const { spec } = podOf(changes, { hasCertificate: true });
      const mounted = [...spec.containers, ...spec.initContainers].flatMap(({ volumeMounts }) =>
        (volumeMounts as Json[]).map(({ name }) => name),
      );
      expect([...new Set(mounted)].sort()).toEqual(spec.volumes.map(({ name }) => name).sort());
    }
  });

  test("keeps an embedded database on a claim, and nothing of one elsewhere", () => {
    const volume = (changes: Json) => podOf(changes).spec.volumes.find(({ name }) => name === "data");
    expect(volume({})).toEqual({ name: "data", persistentVolumeClaim: { claimName: "main-controller-data" } });
    const elsewhere = { database: { urlSecretRef: { name: "db", key: "uri" } } };
    expect(volume(elsewhere)).toEqual({ name: "data", emptyDir: {} });
    const { resource, managed } = managedNetwork(elsewhere);
    expect(renderClaim(resource, managed)).toBeUndefined();
  });

  test("has what the template adds; the operator's own labels and mounts stay", () => {
    const template = {
      metadata: { labels: { team: "net", "app.kubernetes.io/instance": "x" }, annotations: { note: "n" } },
      spec: {
        nodeSelector: { disk: "fast" },
        resources: { requests: { cpu: "1" } },
        env: [{ name: "TZ", value: "UTC" }],
        volumes: [{ name: "extra", emptyDir: {} }],
        volumeMounts: [{ name: "extra", mountPath: "/extra" }],
        containers: [{ name: "side", image: "side:1" }],
        securityContext: { fsGroup: 1 },
      },
    };
    const { metadata, spec } = podOf({ template, image: "mine:2", imagePullSecrets: [{ name: "pull" }] });
    expect(metadata.labels).toMatchObject({ team: "net", "app.kubernetes.io/instance": "main" });
    expect(metadata.annotations).toEqual({ note: "n", "sallyport.dev/config-hash": "abc" });
    expect(spec).toMatchObject({ nodeSelector: { disk: "fast" }, imagePullSecrets: [{ name: "pull" }] });
    expect(spec.securityContext).toMatchObject({ runAsNonRoot: true, fsGroup: 1 });
    expect(spec).not.toHaveProperty("env");
    expect(spec.containers.map(({ name, image }) => [name, image])).toEqual([
      ["controller", "mine:2"],
      ["side", "side:1"],
    ]);
    expect(spec.containers[0]).toMatchObject({ env: [{ name: "TZ" }], resources: { requests: { cpu: "1" } } });
  });

  test("in the network of its node knows the names of the cluster, unless it is told otherwise", () => {
    const policy = (spec: object) => podOf({ template: { spec } }).spec.dnsPolicy;
    expect(policy({})).toBeUndefined();
    expect(policy({ hostNetwork: true })).toBe("ClusterFirstWithHostNet");
    expect(policy({ hostNetwork: true, dnsPolicy: "Default" })).toBe("Default");
  });

  test("keeps a restart that the template asks for, until the resource asks for another", () => {
    const annotations = { "sallyport.dev/restart-requested-at": "mine" };
    const template = { metadata: { annotations } };
    const shown = (own = {}) => podOf({ template }, {}, own).metadata.annotations;
    expect(shown()).toMatchObject(annotations);
    expect(shown({ "sallyport.dev/restart-requested-at": "1" })).toMatchObject({
      "sallyport.dev/restart-requested-at": "1",
    });
  });

  test("changes with the hash, with a restart that is asked for, and with nothing else", () => {
    const text = (...args: Parameters<typeof podOf>) => JSON.stringify(podOf(...args));
    expect(text({ retention: "Delete" })).toBe(text());
    expect(text({ exposure: { annotations: { a: "b" } } })).toBe(text());
    expect(text({}, { configHash: "def" })).not.toBe(text());
    expect(text({}, {}, { "sallyport.dev/restart-requested-at": "1" })).not.toBe(text());
    expect(text({}, {}, { "sallyport.dev/reconcile-requested-at": "1" })).toBe(text());
  });
});

describe("the time that a pod has to stop", () => {
  // biome-ignore format: a table
  test.each<[why: string, inputs: Partial<PodInputs>, seconds: number]>([
    ["of a controller that stops at once", {}, 45],
    ["of one that serves on first", { drainMs: 5_000 }, 50],
    ["of one that serves on for a part of a second", { drainMs: 1_500 }, 47],
    ["of one that serves on for as long as it may", { drainMs: 600_000 }, 645],
  ])("is long enough %s", (_why, inputs, seconds) => {
    expect(podOf({}, inputs).spec.terminationGracePeriodSeconds).toBe(seconds);
  });
});

describe("the pods of controllers with a database by URL", () => {
  const database = { urlSecretRef: { name: "db", key: "uri" } };
  const setOf = (changes: Json, inputs: object = {}) => {
    const { resource, managed } = managedNetwork({ database, ...changes });
    return specOf(renderStatefulSet(resource, managed, { ...INPUTS, ...inputs }));
  };

  test("each has the file of its name, with which it is made and run", () => {
    const { spec, metadata } = podOf({ database });
    const file = "/etc/sallyport/controller/$(SALLYPORT_POD_NAME).yml";
    const [init, run] = [spec.initContainers[0], spec.containers[0]];
    expect([init?.args, run?.args]).toEqual([
      ["init", "--config", file],
      ["run", file],
    ]);
    for (const container of [init, run]) {
      expect((container?.env as Json[] | undefined)?.[0]).toEqual({
        name: "SALLYPORT_POD_NAME",
        valueFrom: { fieldRef: { apiVersion: "v1", fieldPath: "metadata.name" } },
      });
    }
    expect(JSON.stringify(spec)).not.toContain("secretKeyRef");
    expect(metadata.annotations).toHaveProperty(["sallyport.dev/controller-id"]);
  });

  test("are the same whatever their number is, so that more of them restart none", () => {
    expect(podOf({ database, replicas: 3 })).toEqual(podOf({ database, replicas: 2 }));
  });

  test("are as many as there are to be now, and replaced one by one", () => {
    expect(setOf({ replicas: 3 })).toMatchObject({ replicas: 3, minReadySeconds: 10, serviceName: "main-controller" });
    expect(setOf({ replicas: 3 }, { replicas: 1 })).toMatchObject({ replicas: 1, minReadySeconds: 10 });
    expect(setOf({}).minReadySeconds).toBeUndefined();
  });

  test("get no requests while they are not ready for them; the database's absence restarts none", () => {
    const probeOf = (hasOwnAddress: boolean, probe: string) => {
      const [container = {}] = podOf({ database }, { hasOwnAddress }).spec.containers;
      return (container[probe] as { readonly httpGet: Json }).httpGet.path;
    };
    expect(probeOf(true, "readinessProbe")).toBe("/health-checks/ready");
    expect(probeOf(true, "livenessProbe")).toBe("/version");
    // An older image that the spec names has no such page.
    expect(probeOf(false, "readinessProbe")).toBe("/version");
  });

  test("keep apart from each other, unless the template says otherwise", () => {
    const matchLabels = { "app.kubernetes.io/name": "network-controller", "app.kubernetes.io/instance": "main" };
    const { affinity, topologySpreadConstraints } = podOf({ database, replicas: 3 }).spec;
    expect(affinity).toMatchObject({ podAntiAffinity: expect.anything() });
    expect(topologySpreadConstraints).toContainEqual({
      maxSkew: 1,
      topologyKey: "kubernetes.io/hostname",
      whenUnsatisfiable: "ScheduleAnyway",
      labelSelector: { matchLabels },
    });
    const own = { affinity: { nodeAffinity: {} }, topologySpreadConstraints: [] };
    expect(podOf({ database, replicas: 3, template: { spec: own } }).spec).toMatchObject(own);
    expect(podOf({}).spec).not.toHaveProperty("affinity");
  });
});
