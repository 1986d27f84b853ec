/** Three controllers on a PostgreSQL under traffic: killed, rolled out, evicted, drained, and made more and fewer. No call fails. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { printFigure } from "../figures.ts";
import { Routers } from "../routers/routers.ts";
import { hasCluster, Stage } from "../stage.ts";
import { Traffic } from "../traffic.ts";
import { ApiCalls } from "./api-calls.ts";
import { declareUrl, startPostgres } from "./postgres.ts";

const PATIENCE = { timeout: 180_000, interval: 250 };
const PODS = "app.kubernetes.io/name=network-controller";

interface Controllers {
  readonly metadata: { readonly generation: number };
  readonly status: {
    readonly observedGeneration?: number;
    readonly controllers?: readonly { readonly name: string; readonly online?: boolean }[];
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message: string }[];
  };
}

describe.skipIf(!hasCluster)("a network with several controllers", () => {
  let stage: Stage;
  let edge: Routers;
  let traffic: Traffic;
  let api: ApiCalls;
  const managed = { database: { urlSecretRef: { name: "database", key: "url" } } };
  const network = async (replicas: number, more: object = {}): Promise<void> => {
    const resource = { apiVersion: "sallyport.dev/v1alpha1", kind: "Network", metadata: { name: "main" } };
    await stage.apply({ ...resource, spec: { managed: { ...managed, replicas, ...more } } });
  };

  beforeAll(async () => {
    stage = await Stage.open("replicas", { restarts: true });
    await declareUrl(stage);
    await startPostgres(stage);
    await stage.wait("condition=Available", "deployment/postgres");
    await network(3);
    edge = new Routers(stage, "edge", { replicas: 2, roleAttributes: ["public"] });
    await edge.declare();
    traffic = await Traffic.start(stage, 30);
  });
  afterAll(async () => await stage?.close());

  /** Until the Network is ready, with so many pods, all ready and of the newest template, and the routers are online. */
  async function whole(replicas: number): Promise<void> {
    const seen = async () => {
      const { metadata, status } = await stage.get<Controllers>("network", "main");
      const condition = (type: string) => status.conditions?.find((each) => each.type === type);
      const ready = await stage.kubectl("get", "statefulset", "main-controller", "--output=jsonpath={.status}");
      const {
        readyReplicas = 0,
        replicas: pods,
        currentRevision,
        updateRevision,
      } = JSON.parse(ready) as {
        readyReplicas?: number;
        replicas: number;
        currentRevision: string;
        updateRevision: string;
      };
      const routers = await edge.each();
      return {
        isCurrent: status.observedGeneration === metadata.generation,
        ready: condition("Ready")?.status,
        reconciling: condition("Reconciling")?.message,
        pods,
        readyReplicas,
        isRolledOut: currentRevision === updateRevision,
        online: routers.filter(({ online }) => online).length,
      };
    };
    const expected = { isCurrent: true, ready: "True", reconciling: undefined, isRolledOut: true, online: 2 };
    await stage.explain(expect.poll(seen, PATIENCE).toEqual({ ...expected, pods: replicas, readyReplicas: replicas }));
  }

  /** What is done to the network fails no call, and the network is whole again; prints how long that took. */
  async function harmless(what: string, replicas: number, work: () => Promise<unknown>): Promise<void> {
    await traffic.restartCounts();
    const [written, began] = [api.written.length, performance.now()];
    await work();
    await whole(replicas);
    printFigure({ scenario: "replicas", what, seconds: (performance.now() - began) / 1_000 });
    await traffic.answered(10);
    const { fresh, kept } = await traffic.counts();
    expect({ fresh: fresh.failed, kept: kept.failed, api: api.failed }).toEqual({ fresh: [], kept: [], api: [] });
    expect(api.written.length).toBeGreaterThan(written);
  }

  const uidOf = (pod: string) =>
    stage.kubectl("get", "pod", pod, "--ignore-not-found", "--output=jsonpath={.metadata.uid}");
  const replaced = async (pod: string, uid: string) =>
    await stage.explain(expect.poll(async () => ["", uid].includes(await uidOf(pod)), PATIENCE).toBe(false));
  const evict = (pod: string) =>
    stage.cluster.attempt(
      ["create", "--raw", `/api/v1/namespaces/${stage.namespace}/pods/${pod}/eviction`, "--filename=-"],
      JSON.stringify({
        apiVersion: "policy/v1",
        kind: "Eviction",
        metadata: { name: pod, namespace: stage.namespace },
      }),
    );

  test("has three controllers, and both routers", async () => {
    await whole(3);
    api = await ApiCalls.start(stage);
  });

  test.each([0, 1, 2])("fails no call when controller %i is killed", async (ordinal) => {
    const pod = `main-controller-${ordinal}`;
    await harmless(`kill ${pod}`, 3, async () => {
      const uid = await uidOf(pod);
      await stage.kubectl("delete", "pod", pod, "--grace-period=0", "--force");
      await replaced(pod, uid);
    });
  });

  test("fails no call during a rolling update", async () => {
    await harmless("rolling update", 3, async () => {
      const before = await Promise.all([0, 1, 2].map((ordinal) => uidOf(`main-controller-${ordinal}`)));
      await network(3, { template: { metadata: { annotations: { "example.com/rollout": "1" } } } });
      for (const ordinal of [2, 1, 0]) await replaced(`main-controller-${ordinal}`, before[ordinal] ?? "");
    });
  });

  test("lets no second controller be evicted while one is away", async () => {
    await harmless("eviction", 3, async () => {
      const uid = await uidOf("main-controller-2");
      expect(await evict("main-controller-2")).toMatchObject({ code: 0 });
      const second = await evict("main-controller-1");
      expect(second.code).not.toBe(0);
      expect(second.stderr).toMatch(/disruption budget/);
      await replaced("main-controller-2", uid);
    });
  });

  test("fails no call while a node is drained", async (context) => {
    const { cluster } = stage;
    if (!cluster.can("nodes")) return context.skip(`E2E_CLUSTER=${cluster.way}`);
    const node = await stage.kubectl("get", "pod", "main-controller-2", "--output=jsonpath={.spec.nodeName}");
    try {
      await harmless("drain", 3, async () => {
        const options = ["--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s"];
        await stage.explain(cluster.kubectl(["drain", node, `--pod-selector=${PODS}`, ...options]));
      });
    } finally {
      await cluster.kubectl(["uncordon", node]);
    }
  });

  test("fails no call while it grows to five, shrinks to one and grows to three", async () => {
    const more = { template: { metadata: { annotations: { "example.com/rollout": "1" } } } };
    for (const [from, to] of [
      [3, 5],
      [5, 1],
      [1, 3],
    ] as const)
      await harmless(`${from} to ${to}`, to, () => network(to, more));
    await api.end();
    expect(api.written.length).toBeGreaterThan(100);
  });
});
