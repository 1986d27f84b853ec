/** Whom a client shows itself as, and whom it trusts. PEM texts. */
export interface Credentials {
  /** Authorities of the server; absent: those of the system. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
  /** The whole header: `Bearer …`. */
  readonly authorization?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Name in the server's certificate, when it is not the host of the URL. */
  readonly serverName?: string;
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
  readonly namespace?: string;
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
