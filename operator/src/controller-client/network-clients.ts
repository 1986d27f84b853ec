import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { ManagementClient } from "@sallyport/api/client";
import { type ConnectionOptions, NetworkConnection } from "./connection.ts";
import { NetworkNotReadyError } from "./errors.ts";

/** What the resources of a network have to know of it. */
export interface NetworkSettings {
  readonly roleScope: "Global" | "Namespaced";
  /** The namespace is marked as a tenant's. */
  readonly isTenant?: boolean;
  readonly allowAdminIdentities: boolean;
}

/** A network that is ready to be used. */
export interface UsableNetwork {
  readonly client: ManagementClient;
  readonly settings: NetworkSettings;
}

interface NetworkEntry {
  readonly fingerprint: string;
  readonly connection: NetworkConnection;
  readonly settings: NetworkSettings;
}

/** Names a Network resource. */
export interface NetworkRef {
  readonly namespace: string;
  readonly name: string;
}

interface NetworkClientsOptions {
  /** A network became usable, changed, or became unusable: reconcile its resources again. Not called within a call of these clients. */
  readonly onChange?: (ref: NetworkRef) => void;
  /** A network in use answers again: reconcile the resources that failed meanwhile. */
  readonly onRecovered?: (ref: NetworkRef) => void;
  /** Called before every request that may change something; what it throws ends the call. */
  readonly mayAct?: () => void;
  /** Every request of every network, as it ends; `status` 0: no answer came. */
  readonly onRequest?: (operation: string, status: number, seconds: number) => void;
}

const keyOf = ({ namespace, name }: NetworkRef): string => `${namespace}/${name}`;

/**
 * The connections of all Networks: one each, however many resources use it. The reconciler of Networks puts them here; other reconcilers
 * asks for them.
 */
export class NetworkClients {
  readonly #entries = new Map<string, NetworkEntry>();
  /** Networks that are known and can't be used, and why. */
  readonly #notReady = new Map<string, NetworkNotReadyError>();
  readonly #o: NetworkClientsOptions;

  constructor(o: NetworkClientsOptions = {}) {
    this.#o = o;
  }

  /** Puts a network into use. The connection stays as long as nothing of it changes: credentials that were refused are not tried again. */
  set(ref: NetworkRef, settings: NetworkSettings, options: ConnectionOptions): NetworkConnection {
    const connection = this.prepare(ref, settings, options);
    this.use(ref);
    return connection;
  }

  /** The connection as {@link set} makes it, of a network that no resource uses before {@link use}, unless it is in use already. */
  prepare(ref: NetworkRef, settings: NetworkSettings, options: ConnectionOptions): NetworkConnection {
    const key = keyOf(ref);
    const fingerprint = fingerprintOf(options);
    const present = this.#entries.get(key);
    if (present?.fingerprint === fingerprint) {
      this.#entries.set(key, { ...present, settings });
      if (!isDeepStrictEqual(present.settings, settings)) this.#changed(ref);
      return present.connection;
    }
    if (present === undefined && !this.#notReady.has(key)) {
      const message = `the Network ${ref.name} is being looked at`;
      this.#notReady.set(key, new NetworkNotReadyError("NetworkNotReady", message));
    }
    if (present !== undefined) this.#changed(ref);
    const connection = new NetworkConnection({
      ...options,
      mayAct: this.#o.mayAct,
      onRequest: (...request) => {
        this.#o.onRequest?.(...request);
        options.onRequest?.(...request);
      },
      onRecovered: () => {
        const { namespace, name } = ref;
        this.#o.onRecovered?.({ namespace, name });
        options.onRecovered?.();
      },
    });
    this.#entries.set(key, { fingerprint, connection, settings });
    if (present !== undefined) void present.connection.close();
    return connection;
  }

  /** What was prepared is used from now on. */
  use(ref: NetworkRef): void {
    if (this.#notReady.delete(keyOf(ref))) this.#changed(ref);
  }

  /** The network can't be used: `why` is what its users are told. */
  suspend(ref: NetworkRef, why: NetworkNotReadyError): void {
    const before = this.#notReady.get(keyOf(ref));
    this.#notReady.set(keyOf(ref), why);
    if (before?.reason !== why.reason) this.#changed(ref);
  }

  #changed({ namespace, name }: NetworkRef): void {
    setImmediate(() => this.#o.onChange?.({ namespace, name }));
  }

  /** Forgets a network that is gone, and logs out. */
  async remove(ref: NetworkRef): Promise<void> {
    const key = keyOf(ref);
    const entry = this.#entries.get(key);
    this.#entries.delete(key);
    this.#notReady.delete(key);
    await entry?.connection.close();
  }

  /** The connection itself, also of a network that can't be used at present. */
  connectionOf(ref: NetworkRef): NetworkConnection | undefined {
    return this.#entries.get(keyOf(ref))?.connection;
  }

  /** @throws NetworkNotReadyError for a network that is unknown or can't be used yet */
  forNetwork(ref: NetworkRef): UsableNetwork {
    const key = keyOf(ref);
    const why = this.#notReady.get(key);
    if (why !== undefined) throw why;
    const entry = this.#entries.get(key);
    if (entry !== undefined) return { client: entry.connection.client, settings: entry.settings };
    throw new NetworkNotReadyError(
      "NetworkNotFound",
      `there is no Network ${ref.name} in the namespace ${ref.namespace}, or it was not looked at yet`,
    );
  }

  async close(): Promise<void> {
    await Promise.all([...this.#entries.values()].map(({ connection }) => connection.close()));
    this.#entries.clear();
    this.#notReady.clear();
  }
}

/** Of everything that a connection is made with; a hash, because secrets are among it. */
function fingerprintOf({
  endpoints,
  ca,
  servername,
  credentials,
  requestTimeoutMs,
  maxRequestsPerSecond,
}: ConnectionOptions): string {
  const parts = [endpoints, ca, servername, credentials, requestTimeoutMs, maxRequestsPerSecond];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}
