import { EdgeCtrlType, edgeCtrlPb, encodeControl } from "@sallyport/wire";
import type { IdentityChannel } from "./control-plane.ts";
import type { Controllers } from "./controllers/controllers.ts";

export interface ConnectEventsOptions {
  readonly controllers: Controllers;
  readonly enabled: boolean;
  readonly batchIntervalMs: number;
  readonly fullSyncIntervalMs: number;
}

type ConnectionsById = Map<string, IdentityChannel & { readonly since: number }>;

/**
 * Tells the controllers which identities have an SDK channel here: changes in batches, everything after each connect and
 * now and then (docs/protocol/control.md, "Connect events").
 */
export class ConnectEvents {
  readonly #o: ConnectEventsOptions;
  readonly #identities = new Map<string, ConnectionsById>();
  readonly #changed = new Set<string>();
  readonly #full: NodeJS.Timeout;
  #batch: NodeJS.Timeout | undefined;

  constructor(options: ConnectEventsOptions) {
    this.#o = options;
    this.#full = setInterval(() => this.#sendAll(), options.fullSyncIntervalMs);
    this.#full.unref();
    options.controllers.onConnected((controller) => {
      if (options.enabled) controller.channel.send(this.#report(this.#identities.keys(), true));
    });
  }

  connected(connection: IdentityChannel): void {
    const known = this.#identities.get(connection.identityId) ?? new Map();
    known.set(connection.connectionId, { ...connection, since: Date.now() });
    this.#identities.set(connection.identityId, known);
    this.#mark(connection.identityId);
  }

  disconnected(connection: IdentityChannel): void {
    const known = this.#identities.get(connection.identityId);
    known?.delete(connection.connectionId);
    if (known?.size === 0) this.#identities.delete(connection.identityId);
    this.#mark(connection.identityId);
  }

  /** For inspection. What is still to be told counts as unreported. */
  statuses(): object {
    const detail = (id: string, connections: ConnectionsById) => ({
      unreported_count: 0,
      unreported_state_changed: this.#changed.has(id),
      being_reported_count: 0,
      being_reported_state_changed: false,
      connections: [...connections].map(([connectionId, { remoteAddress, localAddress }]) => ({
        id: connectionId,
        closed: false,
        srcAddr: remoteAddress,
        dstAddr: localAddress,
      })),
    });
    return {
      identity_connections: Object.fromEntries([...this.#identities].map(([id, known]) => [id, detail(id, known)])),
      queued_event_count: this.#changed.size,
    };
  }

  close(): void {
    clearInterval(this.#full);
    clearTimeout(this.#batch);
  }

  #mark(identityId: string): void {
    if (!this.#o.enabled) return;
    this.#changed.add(identityId);
    this.#batch ??= setTimeout(() => {
      this.#batch = undefined;
      const report = this.#report(this.#changed, false);
      this.#changed.clear();
      this.#o.controllers.broadcast(report);
    }, this.#o.batchIntervalMs).unref();
  }

  #sendAll(): void {
    if (this.#o.enabled) this.#o.controllers.broadcast(this.#report(this.#identities.keys(), true));
  }

  #report(identities: Iterable<string>, fullState: boolean) {
    const events = [...identities].map((identityId) => {
      const connections = [...(this.#identities.get(identityId)?.values() ?? [])];
      return {
        identityId,
        isConnected: connections.length > 0,
        connectTimes: connections.map(({ since, remoteAddress: srcAddr, localAddress: dstAddr }) => ({
          connectTime: BigInt(since),
          srcAddr,
          dstAddr,
        })),
      };
    });
    const body = encodeControl(edgeCtrlPb.ConnectEventsSchema, { events, fullState });
    return { contentType: EdgeCtrlType.ConnectEvents, body };
  }
}
