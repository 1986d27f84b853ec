/**
 * Calls that go through two routers all the time, while the routers are rolled out, moved to other addresses, killed and drained from a node, and while
 * the controller is away.
 *
 * What is promised: a call on a connection of its own is answered whatever is done to the routers one after the other. A connection that lasts
 * ends with the routers that it goes through, after `drainSeconds`; the next one is there at once. A router that is killed takes what goes through it.
 * Without a controller there are no new circuits, and those that there are go on.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../../network/eventually.ts";
import { hasCluster, type Stage } from "../stage.ts";
import { Traffic } from "../traffic.ts";
import { Routers, stageWithNetwork } from "./routers.ts";

const PATIENCE = { timeout: 300_000, interval: 1_000 };
const OUTAGE_MS = 60_000;
/** The controller has a node only as long as one carries this label. */
const LABEL = "traffic.sallyport.test/controller";

interface PodList {
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly uid: string };
    readonly status?: { readonly containerStatuses?: readonly { readonly restartCount: number }[] };
  }[];
}

describe.skipIf(!hasCluster)("calls through two routers", () => {
  let stage: Stage;
  let edge: Routers;
  let traffic: Traffic;
  /** What was changed in the spec of the routers until now. */
  let changes: object = {};
  const change = async (more: object): Promise<void> => {
    changes = { ...changes, ...more };
    await edge.declare(changes);
  };

  beforeAll(async () => {
    const template = { spec: { nodeSelector: { [LABEL]: "here" } } };
    stage = await stageWithNetwork("traffic", { managed: { template } });
    await stage.cluster.kubectl(["label", "nodes", "--all", `${LABEL}=here`]);
    edge = new Routers(stage, "edge", { replicas: 2, roleAttributes: ["public"], drainSeconds: 5 });
    await edge.declare();
    traffic = await Traffic.start(stage, 30);
    await stage.ready();
  });
  afterAll(async () => {
    try {
      await stage?.close();
    } finally {
      if (stage) await stage.cluster.kubectl(["label", "nodes", "--all", `${LABEL}-`]);
    }
  });

  /** While it is done every call on a connection of its own is answered; the others end with the restarts of routers, and never otherwise. */
  async function answeredThroughout(restarts: number, work: () => Promise<unknown>): Promise<void> {
    await traffic.answered(20);
    await traffic.restartCounts();
    await work();
    await traffic.answered(20);
    const { fresh, kept } = await traffic.counts();
    expect(fresh.failed, "calls on connections of their own").toEqual([]);
    expect(kept.failed.length, `ends of lasting ones: ${kept.failed.join("; ")}`).toBeLessThanOrEqual(restarts);
  }

  test("are all answered while a change of the file is rolled out", async () => {
    const before = await edge.each();
    await answeredThroughout(2, async () => {
      await change({ metrics: { reportInterval: "30s" } });
      await edge.current((now) => now.every(({ configHash }, n) => configHash !== before[n]?.configHash));
    });
    expect((await edge.each()).map(({ id }) => id)).toEqual(before.map(({ id }) => id));
  });

  test("are all answered while the routers move to other addresses, of which their certificates know first", async () => {
    await answeredThroughout(4, async () => {
      await change({ exposure: { type: "ClusterIP", clusterDomain: "cluster.local" } });
      const changing = async () => (await stage.condition("edgerouter", "edge", "AddressAssigned"))?.reason;
      await stage.explain(expect.poll(changing, PATIENCE).toBe("AddressChanging"));
      const suffix = `.${stage.namespace}.svc.cluster.local:3022`;
      await edge.current((now) => now.every(({ advertiseAddress }) => advertiseAddress?.endsWith(suffix)));
    });
  });

  test("go on when a router is killed, which comes back as it was", async () => {
    const before = await edge.each();
    const uid = () =>
      stage.kubectl("get", "pod", "edge-0-0", "--ignore-not-found", "--output=jsonpath={.metadata.uid}");
    const killed = await uid();
    await stage.kubectl("delete", "pod", "edge-0-0", "--grace-period=0", "--force");
    await traffic.answered(20);
    const isAnother = async () => !["", killed].includes(await uid());
    await stage.explain(expect.poll(isAnother, PATIENCE).toBe(true));
    await stage.wait("condition=Ready", "pod/edge-0-0");
    await edge.current((now) => now.every(({ online }) => online));
    expect((await edge.each()).map(({ id }) => id)).toEqual(before.map(({ id }) => id));
    await answeredThroughout(0, () => traffic.answered(20));
  });

  test("go on through a minute without a controller: nothing is restarted, and new things wait for its end", async () => {
    /** Pods besides the controller's, and how often their containers were started. */
    const others = async () =>
      Object.fromEntries(
        (JSON.parse(await stage.kubectl("get", "pods", "--output=json")) as PodList).items
          .filter(({ metadata }) => metadata.name !== "main-controller-0")
          .map(({ metadata, status }) => [
            metadata.name,
            `${metadata.uid} ${status?.containerStatuses?.map(({ restartCount }) => restartCount).join()}`,
          ]),
      );
    const shown = async () =>
      Object.fromEntries(
        (await stage.resources())
          .filter(({ kind, metadata }) => kind !== "Network" && metadata.name !== "later")
          .map(({ kind, metadata, status }) => [`${kind}/${metadata.name}`, status?.conditions]),
      );
    const network = async () => await stage.condition("network", "main", "Ready");
    await stage.ready();
    await stage.settled("overlay");
    const [pods, conditions] = [await others(), await shown()];
    expect(Object.keys(pods)).toHaveLength(4);
    await traffic.answered(20);
    await traffic.restartCounts();

    await stage.cluster.kubectl(["label", "nodes", "--all", `${LABEL}-`]);
    await stage.kubectl("delete", "pod/main-controller-0");
    await stage.wait("condition=Ready=False", "network/main");
    const cause = { reason: "ControllerStarting", message: expect.stringMatching(/has no node yet: .*node/) };
    await stage.explain(expect.poll(network, PATIENCE).toMatchObject(cause));
    const later = { apiVersion: "sallyport.dev/v1alpha1", kind: "OverlayService", metadata: { name: "later" } };
    await stage.apply({ ...later, spec: { networkRef: { name: "main" } } });
    await stage.wait("condition=Reconciling", "overlayservice/later");
    expect((await stage.condition("overlayservice", "later", "Ready"))?.message).toContain("the Network main");

    const since = (await network())?.lastTransitionTime ?? "";
    const lasts = async () => {
      expect(await others()).toEqual(pods);
      return Date.now() - Date.parse(since) >= OUTAGE_MS;
    };
    await stage.explain(eventually("the outage has lasted a minute", lasts, 10 * OUTAGE_MS));
    expect((await network())?.lastTransitionTime).toBe(since);
    // What was ready is shown as it was: the operator knows nothing newer.
    expect(await shown()).toEqual(conditions);
    const during = await traffic.counts();
    expect(during.kept.answered).toBeGreaterThan(60);
    expect(during).toMatchObject({ kept: { failed: [] }, connections: 0 });

    await stage.cluster.kubectl(["label", "nodes", "--all", `${LABEL}=here`]);
    await stage.ready();
    await edge.current((now) => now.every(({ online }) => online));
    expect(await others()).toEqual(pods);
    await traffic.answered(20);
    expect(await traffic.counts()).toMatchObject({ kept: { failed: [] }, connections: 0 });
    await stage.kubectl("delete", "overlayservice/later", "--timeout=300s");
  });

  test("are all answered while a node is drained: the routers on it leave one after the other, and come up elsewhere", async (context) => {
    const { cluster } = stage;
    // Their volumes have to be within reach of both nodes, which are this machine then.
    if (!cluster.can("nodes") || cluster.way !== "local") return context.skip(`E2E_CLUSTER=${cluster.way}`);
    const mobile = await Mobile.make(stage);
    try {
      await mobile.routers.declare();
      await mobile.routers.ready();
      // Only they are left.
      await change({ roleAttributes: [] });
      await edge.current();
      expect(await mobile.nodes()).toEqual(["node2", "node2"]);
      const uids = () =>
        stage.kubectl("get", "pods", `--selector=${Mobile.LABEL}`, "--output=jsonpath={.items[*].metadata.uid}");
      const before = await uids();
      await mobile.mayGoTo("node1");
      await answeredThroughout(2, async () => {
        await stage.explain(
          cluster.kubectl([
            "drain",
            "node2",
            `--pod-selector=${Mobile.LABEL}`,
            "--ignore-daemonsets",
            "--delete-emptydir-data",
            "--timeout=300s",
          ]),
        );
        await mobile.routers.current((now) => now.every(({ online }) => online));
        await stage.wait("condition=Ready", "pod/mobile-1-0");
        await stage.wait("condition=Ready", "pod/mobile-0-0");
        expect(await mobile.nodes()).toEqual(["node1", "node1"]);
      });
      expect(await uids()).not.toBe(before);
    } finally {
      await cluster.kubectl(["uncordon", "node2"]);
      await mobile.remove();
    }
  });
});

/** Two routers that are on node2, with volumes that are the same on every node of this machine. */
class Mobile {
  static readonly LABEL = "example.com/mobile=routers";
  readonly routers: Routers;
  readonly #stage: Stage;
  readonly #folders: readonly string[];

  private constructor(stage: Stage, folders: readonly string[]) {
    this.#stage = stage;
    this.#folders = folders;
    const [key = "", value = ""] = Mobile.LABEL.split("=");
    this.routers = new Routers(stage, "mobile", {
      replicas: 2,
      roleAttributes: ["public"],
      drainSeconds: 5,
      storage: { storageClassName: stage.namespace },
      template: {
        metadata: { labels: { [key]: value } },
        spec: { nodeSelector: { [selectorOf(stage)]: "here" } },
      },
    });
  }

  static async make(stage: Stage): Promise<Mobile> {
    const folders = await Promise.all([0, 1].map(() => mkdtemp(join(tmpdir(), "sallyport-mobile-"))));
    const name = stage.namespace;
    await stage.cluster.apply(
      [
        {
          apiVersion: "storage.k8s.io/v1",
          kind: "StorageClass",
          metadata: { name },
          provisioner: "kubernetes.io/no-provisioner",
          volumeBindingMode: "WaitForFirstConsumer",
        },
        ...folders.map((path, n) => volume(`${name}-${n}`, name, path)),
      ]
        .map((each) => JSON.stringify(each))
        .join("\n---\n"),
    );
    const mobile = new Mobile(stage, folders);
    await mobile.mayGoTo("node2");
    return mobile;
  }

  async mayGoTo(node: string): Promise<void> {
    await this.#stage.cluster.kubectl(["label", "--overwrite", "node", node, `${selectorOf(this.#stage)}=here`]);
  }

  /** Where they are. */
  async nodes(): Promise<string[]> {
    const nodes = await this.#stage.kubectl(
      "get",
      "pods",
      `--selector=${Mobile.LABEL}`,
      "--output=jsonpath={.items[*].spec.nodeName}",
    );
    return nodes.split(" ");
  }

  async remove(): Promise<void> {
    const { cluster, namespace } = this.#stage;
    await this.#stage.kubectl("delete", "edgerouter", "mobile", "--ignore-not-found", "--timeout=300s");
    const volumes = this.#folders.map((_, n) => `persistentvolume/${namespace}-${n}`);
    await cluster.kubectl(["delete", `storageclass/${namespace}`, ...volumes, "--ignore-not-found", "--timeout=300s"]);
    await cluster.kubectl(["label", "node", "node1", "node2", `${selectorOf(this.#stage)}-`]);
    for (const folder of this.#folders) await rm(folder, { recursive: true });
  }
}

/** Label of the nodes that they may be on. */
const selectorOf = ({ namespace }: Stage): string => `example.com/${namespace}`;

const volume = (name: string, storageClassName: string, path: string): object => {
  const anywhere = { key: "kubernetes.io/hostname", operator: "In", values: ["node1", "node2"] };
  return {
    apiVersion: "v1",
    kind: "PersistentVolume",
    metadata: { name },
    spec: {
      storageClassName,
      persistentVolumeReclaimPolicy: "Retain",
      accessModes: ["ReadWriteOnce"],
      capacity: { storage: "100Mi" },
      local: { path },
      nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions: [anywhere] }] } },
    },
  };
};
