import { createSecureContext, type SecureContext } from "node:tls";
import { connectThroughProxy, proxyOf } from "@sallyport/wire";
import { buildConnector, Pool } from "undici";
import type { Cluster, Credentials } from "./cluster.ts";

/** Requests at the same time; more of them wait for a connection. Watches have connections of their own. */
const REQUEST_CONNECTIONS = 32;
const CONNECT_MS = 10_000;
/** Credentials are read again after this time, since files are rotated. */
const CREDENTIALS_AGE_MS = 60_000;

/** Connections that share credentials. */
interface Generation {
  readonly credentials: Credentials;
  readonly requests: Pool;
  readonly watches: Pool;
}

/**
 * The kept connections to one API server. New ones are made when what the TLS handshake needs has changed; the old ones end with the requests on them.
 */
export class Connections {
  readonly #cluster: Cluster;
  #current: Generation | undefined;
  #readAt = 0;
  #reading: Promise<Generation> | undefined;
  #isClosed = false;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** The connections of now. */
  async get(): Promise<Generation> {
    const current = this.#current;
    const isOld = performance.now() - this.#readAt > CREDENTIALS_AGE_MS;
    return current !== undefined && !isOld ? current : await this.#read(false);
  }

  /** Reads the credentials again after those of `refused` did not do; false when there are no others. */
  async renew(refused: Credentials): Promise<boolean> {
    const { credentials } = await this.#read(true);
    return JSON.stringify(credentials) !== JSON.stringify(refused);
  }

  /** Ends every request and watch. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const current = this.#current;
    this.#current = undefined;
    if (current !== undefined) await Promise.all([current.requests.destroy(), current.watches.destroy()]);
  }

  async #read(fresh: boolean): Promise<Generation> {
    this.#reading ??= this.#readNow(fresh).finally(() => {
      this.#reading = undefined;
    });
    return await this.#reading;
  }

  async #readNow(fresh: boolean): Promise<Generation> {
    const credentials = await this.#credentials(fresh);
    if (this.#isClosed) throw new Error("the Kubernetes client is closed");
    this.#readAt = performance.now();
    const before = this.#current;
    if (before !== undefined && handshakeOf(before.credentials) === handshakeOf(credentials)) {
      this.#current = { ...before, credentials };
      return this.#current;
    }
    const { ca, cert, key } = credentials;
    const secureContext = createSecureContext({ ca, cert, key });
    this.#current = {
      credentials,
      requests: this.#pool(credentials, secureContext, REQUEST_CONNECTIONS),
      watches: this.#pool(credentials, secureContext, null),
    };
    // Requests under way end well; a watch on the old connections ends with its own time.
    if (before !== undefined) void Promise.allSettled([before.requests.close(), before.watches.close()]);
    return this.#current;
  }

  /** What can't be read for a moment stays as it was: files may be replaced while they are read. */
  async #credentials(fresh: boolean): Promise<Credentials> {
    const known = this.#current?.credentials;
    try {
      return await this.#cluster.credentials(fresh);
    } catch (error) {
      if (known === undefined) throw error;
      return known;
    }
  }

  #pool(
    { serverName, trustsAnyServer = false }: Credentials,
    secureContext: SecureContext,
    connections: number | null,
  ): Pool {
    return new Pool(this.#cluster.server.origin, {
      connections,
      allowH2: false,
      // Every request has a deadline of its own, a watch a limit of silence.
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: 30_000,
      connect: this.#connector({
        timeout: CONNECT_MS,
        keepAlive: true,
        keepAliveInitialDelay: 30_000,
        rejectUnauthorized: !trustsAnyServer,
        // One for all: else each connection holds the authorities, parsed.
        secureContext,
        servername: serverName,
      }),
    });
  }

  /** Through the proxy of the environment, where that has one for this server. */
  #connector(options: buildConnector.BuildOptions): buildConnector.BuildOptions | buildConnector.connector {
    const { server, isNear = false } = this.#cluster;
    const proxy = isNear || server.protocol !== "https:" ? undefined : proxyOf(server, process.env);
    if (proxy === undefined) return options;
    const secure = buildConnector(options);
    const target = { host: server.hostname.replace(/^\[|\]$/g, ""), port: Number(server.port || 443) };
    return (asked, callback) => {
      connectThroughProxy(proxy, target, { signal: AbortSignal.timeout(CONNECT_MS) }).then(
        (httpSocket) => secure({ ...asked, httpSocket }, callback),
        (error: Error) => callback(error, null),
      );
    };
  }
}

function handshakeOf({ ca, cert, key, serverName, trustsAnyServer }: Credentials): string {
  return JSON.stringify([ca, cert, key, serverName, trustsAnyServer]);
}
