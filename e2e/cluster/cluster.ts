/**
 * A whole Kubernetes cluster for tests: etcd, API server, controllers, scheduler, and nodes with containerd, kubelet and
 * proxy, with a name server and volumes on demand, all of it real.
 *
 * ```ts
 * const cluster = await Cluster.start({ nodes: 1, images: ["dist/images/router.tar"] });
 * await cluster.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: web}\n");
 * await cluster.kubectl(["wait", "--for=condition=Ready", "pod/web", "--timeout=60s"]);
 * await cluster.close();
 * ```
 * It runs in network, mount and process namespaces of its own; several run side by side. The machine has routes to its
 * nodes, pods and Services, and its pods reach the machine at `machineAddress` (or `machine.test`): nothing is forwarded.
 * Everything is gone after `close`, and as well when the test ends without it, in whatever way (`keeper/main.ts`).
 */
import { join } from "node:path";
import { type Addresses, addressesOf, MAX_NODES } from "./box/addresses.ts";
import { ownImages } from "./images.ts";
import { KeeperProcess, type Ready } from "./keeper/keeper-process.ts";
import type { KeeperOptions } from "./keeper/main.ts";
import { findTools } from "./tools.ts";
import { AttachedCluster } from "./ways/attached.ts";

export { KubectlError, type Ran } from "./kubectl.ts";

export interface ClusterOptions {
  /** Nodes that run pods, 1 when absent; 0: API server and controllers only, in half the time. */
  readonly nodes?: number;
  /** Archives of images (as `docker save` writes them), for every node; besides `POD_IMAGE` and the cluster's own. */
  readonly images?: readonly string[];
  readonly onStage?: (stage: string, ms: number) => void;
}

export class Cluster extends AttachedCluster {
  readonly addresses: Addresses;

  private constructor(keeper: KeeperProcess, kubectl: string, { folder, kubeconfig, slot }: Ready) {
    const abilities = ["components", "compact", "nodes", "machine"] as const;
    super(
      { way: "local", kubeconfig, kubectl, folder, reachable: true, imagePrefix: "", abilities },
      { stages: keeper.stages, close: async () => await keeper.end() },
    );
    this.addresses = addressesOf(slot);
  }

  /**
   * Resolves when nodes, name server and service accounts are ready. The programs are built or fetched the first time.
   *
   * @throws NoClusterError when this machine cannot have one
   */
  static async start(options: ClusterOptions = {}): Promise<Cluster> {
    const tools = findTools();
    const began = performance.now();
    const keeper = new KeeperProcess({ ...keeperOptions(options), tools }, options.onStage);
    const cluster = new Cluster(keeper, join(tools.kubernetes, "kubectl"), await keeper.ready);
    keeper.stages.set("ready", Math.round(performance.now() - began));
    return cluster;
  }

  /** URL of the API server. */
  get server(): string {
    return `https://${this.addresses.controlPlane}:6443`;
  }

  /** The address of the machine as pods see it. */
  get machineAddress(): string {
    return this.addresses.machine;
  }
}

/** What a keeper is told besides where the programs are. */
export function keeperOptions({ nodes = 1, images = [] }: ClusterOptions): Omit<KeeperOptions, "tools"> {
  if (!Number.isInteger(nodes) || nodes < 0 || nodes > MAX_NODES)
    throw new RangeError(`expected 0 to ${MAX_NODES} nodes, got ${nodes}`);
  return { nodes, images: nodes === 0 ? [] : [...ownImages(findTools()), ...images] };
}
