/** A cluster as every way to get one gives it. What only some can do is asked for by `can`. */
import type { Ran } from "../kubectl.ts";

/**
 * | way | what |
 * |---|---|
 * | `local` | in namespaces of this machine (`../cluster.ts`) |
 * | `container` | the same in one container, on podman or Docker |
 * | `kind`, `k3s` | of the program kind, of the image of k3s: on Docker |
 * | `existing` | the one that `KUBECONFIG` names |
 */
export const WAYS = ["local", "container", "kind", "k3s", "existing"] as const;
export type Way = (typeof WAYS)[number];

/**
 * | ability | what |
 * |---|---|
 * | `components` | `stopComponent`, `startComponent`, `log` |
 * | `compact` | `compact` |
 * | `nodes` | it has as many nodes as were asked for, called node1, node2, …, which may be drained |
 * | `machine` | its pods reach this machine by the name `machine.test` |
 */
export type Ability = "components" | "compact" | "nodes" | "machine";

export interface ClusterHandle {
  readonly way: Way;
  /** Path of the admin's kubeconfig. */
  readonly kubeconfig: string;
  /** The addresses of pods and Services can be connected to from here. */
  readonly reachable: boolean;
  /** What images are called in front of their names here, with the slash; empty where archives are loaded as they are. */
  readonly imagePrefix: string;
  /** Milliseconds from the beginning at which each stage was reached. */
  readonly stages: ReadonlyMap<string, number>;

  can(what: Ability): boolean;
  /** Runs kubectl as admin; resolves with what it printed. @throws KubectlError */
  kubectl(args: readonly string[], stdin?: string): Promise<string>;
  /** The same, resolving with the exit code whatever it is. */
  attempt(args: readonly string[], stdin?: string): Promise<Ran>;
  /** An object by its kind (or resource) and name, as JSON. */
  get<T>(resource: string, name: string, namespace?: string): Promise<T>;
  /** Server-side apply of manifests; unknown fields are refused. */
  apply(yaml: string): Promise<string>;
  /** A kubeconfig with the rights of a service account, which is made unless it is there; resolves with its path. */
  kubeconfigOf(serviceAccount: string, namespace?: string): Promise<string>;
  /** Kills a component, as a crash does: `etcd`, `kube-apiserver`, `kubelet1`, … @throws UnableError */
  stopComponent(name: string): Promise<void>;
  /** Starts it again; does not wait for it. @throws UnableError */
  startComponent(name: string): Promise<void>;
  /** Takes the history of all objects from the API server; resolves with the revision. @throws UnableError */
  compact(): Promise<number>;
  /** What a component has logged; `box`: the cluster itself. @throws UnableError */
  log(component: string): Promise<string>;
  /** What `attachCluster` needs to use it from another process, as JSON. */
  describe(): ClusterDescription;
  /** Ends what was started, and removes what was made; may be called again. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A cluster that another process has opened, and will close. */
export interface ClusterDescription {
  readonly way: Way;
  readonly kubeconfig: string;
  /** Path of the program. */
  readonly kubectl: string;
  /** For what kubectl keeps, and for other kubeconfigs; where there are components, also the one that they write to. */
  readonly folder: string;
  readonly reachable: boolean;
  readonly imagePrefix: string;
  readonly abilities: readonly Ability[];
}

/** This way of getting a cluster does not give what was asked for. */
export class UnableError extends Error {
  constructor(way: Way, what: Ability) {
    super(`a cluster got by E2E_CLUSTER=${way} cannot do this: ask can("${what}") first`);
    this.name = "UnableError";
  }
}
