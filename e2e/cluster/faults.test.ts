/** The parts of a cluster can be taken away and given back: what tests of faults rely on. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../network/eventually.ts";
import { Cluster } from "./cluster.ts";
import { POD_IMAGE } from "./images.ts";
import { hasCluster } from "./tools.ts";

/** Two pods, spread over the nodes, which leave a node two seconds after it is gone. */
const WEB = `
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      terminationGracePeriodSeconds: 1
      tolerations:
        - { key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2 }
        - { key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2 }
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: DoNotSchedule
          nodeTaintsPolicy: Honor
          labelSelector: { matchLabels: { app: web } }
      containers: [{ name: main, image: "${POD_IMAGE}", imagePullPolicy: IfNotPresent, args: [pause] }]
`;
const PATIENCE_MS = 90_000;
/** Whether a pod runs, in which container, and how often one had to be started again. */
const CONTAINER =
  "jsonpath={.status.phase} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}";

/** Runs a pod past the scheduler, which may not know yet that the node is back. */
function podOnNode1(name: string): string[] {
  const run = ["run", name, `--image=${POD_IMAGE}`, "--image-pull-policy=IfNotPresent", "--restart=Never"];
  return [...run, "--overrides", '{"spec":{"nodeName":"node1"}}', "--", "pause"];
}

describe.skipIf(!hasCluster)("in a cluster", () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start({ nodes: 2 });
    await cluster.apply(WEB);
    await cluster.kubectl(["rollout", "status", "deployment/web", "--timeout=120s"]);
  });
  afterAll(async () => await cluster?.close());

  const isReady = async (node: string): Promise<boolean> => {
    const path = 'jsonpath={.status.conditions[?(@.type=="Ready")].status}';
    return (await cluster.kubectl(["get", "node", node, "--output", path])) === "True";
  };
  /** How many pods run on each node. */
  const running = async (): Promise<Record<string, number>> => {
    const path =
      'jsonpath={range .items[?(@.status.phase=="Running")]}{.spec.nodeName} {.metadata.deletionTimestamp}\n{end}';
    const lines = (await cluster.kubectl(["get", "pods", "--selector", "app=web", "--output", path]))
      .trim()
      .split("\n");
    const living = lines.map((line) => line.trim()).filter((line) => line !== "" && !line.includes(" "));
    return Object.fromEntries(["node1", "node2"].map((node) => [node, living.filter((each) => each === node).length]));
  };

  test("the pods of a node without a kubelet go to another, and the node comes back", async () => {
    expect(await running()).toEqual({ node1: 1, node2: 1 });
    await cluster.stopComponent("kubelet2");
    await eventually("the node is not ready", async () => !(await isReady("node2")), PATIENCE_MS);
    await eventually("the other has its pods", async () => (await running()).node1 === 2, PATIENCE_MS);
    await cluster.startComponent("kubelet2");
    await eventually("the node is ready", async () => await isReady("node2"), PATIENCE_MS);
  });

  test("an API server without etcd is not ready, and has everything when etcd is back", async () => {
    await cluster.kubectl(["create", "configmap", "kept"]);
    await cluster.stopComponent("etcd");
    expect(await cluster.attempt(["get", "--raw", "/readyz"])).toMatchObject({ code: 1 });
    await cluster.startComponent("etcd");
    await eventually(
      "it is ready",
      async () => (await cluster.attempt(["get", "--raw", "/readyz"])).stdout === "ok",
      PATIENCE_MS,
    );
    expect((await cluster.attempt(["get", "configmap", "kept"])).code).toBe(0);
  });

  test("pods outlive their container runtime, which starts new ones afterwards", async () => {
    // Not one of WEB: those leave a node that is not ready for two seconds, as it is while its runtime is away.
    await cluster.kubectl(podOnNode1("old"));
    await cluster.kubectl(["wait", "--for=condition=Ready", "pod/old", "--timeout=120s"]);
    const before = await cluster.kubectl(["get", "pod", "old", "--output", CONTAINER]);
    await cluster.stopComponent("containerd1");
    await cluster.startComponent("containerd1");
    await cluster.kubectl(podOnNode1("new"));
    await cluster.kubectl(["wait", "--for=condition=Ready", "pod/new", "--timeout=120s"]);
    await eventually("the node is ready", async () => await isReady("node1"), PATIENCE_MS);
    expect(before).toMatch(/^Running containerd:\S+ 0$/);
    expect(await cluster.kubectl(["get", "pod", "old", "--output", CONTAINER])).toBe(before);
  });

  test("a node that is drained gives its pods to the other", async () => {
    await eventually(
      "both nodes are ready",
      async () => (await isReady("node1")) && (await isReady("node2")),
      PATIENCE_MS,
    );
    await cluster.kubectl(["drain", "node1", "--force", "--timeout=120s"]);
    await eventually("the other has all", async () => (await running()).node2 === 2, PATIENCE_MS);
    expect((await running()).node1).toBe(0);
  });
});
