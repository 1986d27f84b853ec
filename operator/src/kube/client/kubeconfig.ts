import type { RequestOptions } from "node:https";
import { type Cluster, ClusterConfigError, type Credentials } from "./cluster.ts";

interface KubeconfigOptions {
  /** Default: what `KUBECONFIG` names, else `~/.kube/config`. */
  readonly path?: string | undefined;
  /** Default: the current context of the file. */
  readonly context?: string | undefined;
}

/**
 * The API server of a kubeconfig file, with all that such a file knows: tokens, certificates, programs that fetch credentials, OpenID Connect.
 * The library that understands this takes about 85 MB of memory, so it is loaded only here, and never in a pod.
 * @throws ClusterConfigError when there is no such file or context
 */
export async function fromKubeconfig({ path, context }: KubeconfigOptions = {}): Promise<Cluster> {
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
    ...(namespace === undefined ? {} : { namespace }),
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
  const shown = authorization ?? basic;
  return {
    ...(options.ca ? { ca: String(options.ca) } : {}),
    ...(options.cert ? { cert: String(options.cert) } : {}),
    ...(options.key ? { key: String(options.key) } : {}),
    ...(options.servername ? { serverName: options.servername } : {}),
    ...(shown === undefined ? {} : { authorization: shown }),
    headers: others,
    trustsAnyServer: options.rejectUnauthorized === false,
  };
}
