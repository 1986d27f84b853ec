import { readFile } from "node:fs/promises";
import { isIP, isIPv6 } from "node:net";
import { join } from "node:path";
import { type Cluster, ClusterConfigError, clusterAt } from "./cluster.ts";
import { fromKubeconfig } from "./kubeconfig.ts";

interface FindClusterOptions {
  /** URL of an API server that needs no credentials: a test's, or that of `kubectl proxy`. */
  readonly server?: string | undefined;
  /** File; also used in a pod when given. */
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Where the pod's token and authorities are. */
  readonly serviceAccountFolder?: string | undefined;
}

/**
 * The API server that a program is meant to use: the URL that is given, else the kubeconfig that is given, else that of the pod, else the user's kubeconfig.
 * @throws ClusterConfigError when what was chosen cannot be used
 */
export async function findCluster(o: FindClusterOptions = {}): Promise<Cluster> {
  const { server, kubeconfig, context, env = process.env, serviceAccountFolder } = o;
  if (server !== undefined) return clusterAt(server);
  if (kubeconfig === undefined && context === undefined && isInCluster(env)) {
    return await inCluster({ env, folder: serviceAccountFolder });
  }
  return await fromKubeconfig({
    path: kubeconfig,
    context,
  });
}

/** Where Kubernetes mounts the token of a pod's service account. */
export const SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

interface InClusterOptions {
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Holds `token`, `ca.crt` and `namespace`. */
  readonly folder?: string | undefined;
}

/** True where Kubernetes says that this process is in a pod. */
export function isInCluster(env: Readonly<Record<string, string | undefined>> = process.env): boolean {
  return Boolean(env.KUBERNETES_SERVICE_HOST && env.KUBERNETES_SERVICE_PORT);
}

/**
 * The API server of the cluster whose pod this process is in. Token and authorities are read again every time they are asked for,
 * since the kubelet replaces the files while the pod runs.
 * @throws ClusterConfigError outside a pod, or when the files are not there
 */
export async function inCluster({
  env = process.env,
  folder = SERVICE_ACCOUNT_FOLDER,
}: InClusterOptions = {}): Promise<Cluster> {
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  if (!host || !port) {
    throw new ClusterConfigError(
      "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod; name a kubeconfig file",
    );
  }
  const read = async (name: string): Promise<string> => {
    try {
      return (await readFile(join(folder, name), "utf8")).trim();
    } catch (cause) {
      throw new ClusterConfigError(
        `cannot read ${join(folder, name)}; the pod needs automountServiceAccountToken: true`,
        { cause },
      );
    }
  };
  const namespace = await read("namespace");
  return {
    server: new URL(`https://${isIPv6(host) ? `[${host}]` : host}:${port}`),
    namespace,
    // An address is the Service's: no proxy outside of the cluster knows it.
    isNear: isIP(host) !== 0,
    credentials: async () => {
      // One after the other: when none of them is there, it is always the first that is named.
      const token = await read("token");
      const ca = await read("ca.crt");
      return { ca, authorization: `Bearer ${token}` };
    },
  };
}
