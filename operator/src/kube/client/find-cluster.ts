import { type Cluster, clusterAt } from "./cluster.ts";
import { inCluster, isInCluster } from "./in-cluster.ts";
import { fromKubeconfig } from "./kubeconfig.ts";

export interface FindClusterOptions {
  /** URL of an API server that needs no credentials: a test's, or that of `kubectl proxy`. */
  readonly server?: string;
  /** File; also used in a pod when given. */
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Where the pod's token and authorities are. */
  readonly serviceAccountFolder?: string;
}

/**
 * The API server that a program is meant to use: the URL that is given, else the kubeconfig that is given, else that of the pod, else the user's kubeconfig.
 * @throws ClusterConfigError when what was chosen cannot be used
 */
export async function findCluster(o: FindClusterOptions = {}): Promise<Cluster> {
  const { server, kubeconfig, context, env = process.env, serviceAccountFolder } = o;
  if (server !== undefined) return clusterAt(server);
  if (kubeconfig === undefined && context === undefined && isInCluster(env)) {
    return await inCluster({ env, ...(serviceAccountFolder === undefined ? {} : { folder: serviceAccountFolder }) });
  }
  return await fromKubeconfig({
    ...(kubeconfig === undefined ? {} : { path: kubeconfig }),
    ...(context === undefined ? {} : { context }),
  });
}
