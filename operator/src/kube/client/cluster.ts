import { readFile } from "node:fs/promises";
import type { RequestOptions } from "node:https";
import { isIP, isIPv6 } from "node:net";
import { join } from "node:path";

/** Whom a client shows itself as, and whom it trusts. PEM texts. */
export interface Credentials {
  /** Authorities of the server; absent: those of the system. */
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** The whole header: `Bearer …`. */
  readonly authorization?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
  /** Name in the server's certificate, when it is not the host of the URL. */
  readonly serverName?: string | undefined;
  /** Takes any certificate; only a kubeconfig that says so sets it. */
  readonly trustsAnyServer?: boolean;
}

/** An API server and how one gets in. */
export interface Cluster {
  /** `https://10.0.0.1:6443`, with a path in front of all others where there is one. */
  readonly server: URL;
  /** Never through a proxy of the environment. */
  readonly isNear?: boolean;
  /** The namespace that this process belongs to, when it is known. */
  readonly namespace?: string | undefined;
  /** Reads the credentials. They change during a process's life: files are rotated, tokens expire. `fresh` says that what was read before was refused. */
  credentials(fresh: boolean): Promise<Credentials>;
}

/** A server by its URL alone, with a fixed token or none: for tests and for `kubectl proxy`. */
export function clusterAt(url: string | URL, credentials: Credentials = {}): Cluster {
  return { server: new URL(url), credentials: () => Promise.resolve(credentials) };
}

/** No API server could be found, or what leads to it is not usable. */
export class ClusterConfigError extends Error {
  override readonly name = "ClusterConfigError";
}

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
    return await inCluster(env, serviceAccountFolder);
  }
  return await fromKubeconfig(kubeconfig, context);
}

/** Where Kubernetes mounts the token of a pod's service account. */
export const SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

/** True where Kubernetes says that this process is in a pod. */
export function isInCluster(env: Readonly<Record<string, string | undefined>> = process.env): boolean {
  return Boolean(env.KUBERNETES_SERVICE_HOST && env.KUBERNETES_SERVICE_PORT);
}

/**
 * The API server of the cluster whose pod this process is in. Token and authorities are read again every time they are asked for,
 * since the kubelet replaces the files while the pod runs.
 * @throws ClusterConfigError outside a pod, or when the files are not there
 */
export async function inCluster(
  env: Readonly<Record<string, string | undefined>> = process.env,
  folder = SERVICE_ACCOUNT_FOLDER,
): Promise<Cluster> {
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

/**
 * The API server of a kubeconfig file, with all that such a file knows: tokens, certificates, programs that fetch credentials, OpenID Connect.
 * The library that understands this takes about 85 MB of memory, so it is loaded only here, and never in a pod.
 * @param path default: what `KUBECONFIG` names, else `~/.kube/config`
 * @param context default: the current one of the file
 * @throws ClusterConfigError when there is no such file or context
 */
export async function fromKubeconfig(path?: string, context?: string): Promise<Cluster> {
  const { KubeConfig } = await import("@kubernetes/client-node");
  const load = (): InstanceType<typeof KubeConfig> => {
    const config = new KubeConfig();
    try {
      if (path === undefined) config.loadFromDefault();
      else config.loadFromFile(path);
    } catch (cause) {
      throw new ClusterConfigError(`cannot read the kubeconfig ${path ?? "of the environment"}`, { cause });
    }
    if (context !== undefined) {
      if (config.getContextObject(context) === null) {
        const known = config.getContexts().map(({ name }) => name);
        throw new ClusterConfigError(`the kubeconfig has no context ${context}; it has ${known.join(", ") || "none"}`);
      }
      config.setCurrentContext(context);
    }
    return config;
  };
  let config = load();
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    throw new ClusterConfigError(`the kubeconfig ${path ?? "of the environment"} names no current cluster`);
  }
  const namespace = config.getContextObject(config.getCurrentContext())?.namespace;
  return {
    server: new URL(cluster.server),
    namespace,
    credentials: async (fresh) => {
      if (fresh) config = load();
      const options: RequestOptions = {};
      await config.applyToHTTPSOptions(options);
      return credentialsOf(options);
    },
  };
}

function credentialsOf(options: RequestOptions): Credentials {
  const headers = Object.fromEntries(
    Object.entries(options.headers ?? {}).map(([name, value]) => [name.toLowerCase(), String(value)]),
  );
  const { authorization, ...others } = headers;
  const basic = options.auth ? `Basic ${Buffer.from(options.auth).toString("base64")}` : undefined;
  const text = (value: unknown): string | undefined => (value ? String(value) : undefined);
  return {
    ca: text(options.ca),
    cert: text(options.cert),
    key: text(options.key),
    serverName: options.servername || undefined,
    authorization: authorization ?? basic,
    headers: others,
    trustsAnyServer: options.rejectUnauthorized === false,
  };
}
