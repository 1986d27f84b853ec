import { ControlType, ctrlPb, encodeControl, type Logger } from "@sallyport/wire";
import type { CircuitRegistry } from "../circuits/circuit-registry.ts";
import type { Rerouter } from "../circuits/rerouter.ts";
import type { RouteExchange } from "../circuits/route-exchange.ts";
import type { EmitEvent } from "../fabric-events.ts";
import type { LinkMessages } from "../links/link-messages.ts";
import type { Mesh } from "../links/mesh.ts";
import type { FabricModel } from "../ports.ts";
import type { SessionFeed } from "../sessions/session-feed.ts";
import type { CircuitAdoption } from "../takeover/circuit-adoption.ts";
import type { CircuitSuccession } from "../takeover/circuit-succession.ts";
import type { TerminatorValidation } from "../terminators/terminator-validation.ts";
import type { IdentityConnections } from "./identity-connections.ts";
import type { RouterConnection } from "./router-connection.ts";
import type { StartGrace } from "./start-grace.ts";

/** How soon a router that could not be read is read again: it may be disabled. */
const RETRY_MS = 2_000;

interface RouterLifeParts {
  readonly model: Pick<FabricModel, "findRouter">;
  readonly mesh: Mesh;
  readonly exchange: RouteExchange;
  readonly circuits: CircuitRegistry;
  readonly adoption: CircuitAdoption;
  readonly succession: Pick<CircuitSuccession, "connected">;
  readonly rerouter: Rerouter;
  readonly links: LinkMessages;
  readonly sessions: SessionFeed;
  readonly validation: TerminatorValidation;
  readonly identities: IdentityConnections;
  readonly start: StartGrace;
  /** How long a router without a channel is expected back. */
  readonly reconnectGraceMs: number;
  readonly emit: EmitEvent;
  readonly log: Logger;
}

/**
 * What follows for everything else when a router connects, loses its channel, comes back, stays away, is changed or deleted.
 * Source: docs/protocol/fabric.md, "Peers" and "Rerouting".
 */
export class RouterLife {
  readonly #parts: RouterLifeParts;
  readonly #peers: PeerStates;
  readonly #presence: Presence;
  #isClosed = false;

  constructor(parts: RouterLifeParts) {
    this.#parts = parts;
    this.#peers = new PeerStates(parts.mesh);
    this.#presence = new Presence(parts.reconnectGraceMs, (routerId) => this.#gone(routerId));
  }

  /** True while a router that lost its control channel, to this process or to the one before, is expected back. */
  isAnyAwaited(): boolean {
    return this.#presence.isAnyAwaited || (this.#parts.start.isRunning && this.#parts.adoption.hasAdopted);
  }

  /** `isNewProcess`: nothing of what the router had before exists any more. */
  connected(router: RouterConnection, isNewProcess: boolean): void {
    const { emit, sessions, validation, rerouter, adoption, succession, start } = this.#parts;
    start.connected(router.id);
    this.#presence.back(router.id);
    if (isNewProcess) this.#forgetProcess(router.id);
    emit({
      kind: "router-online",
      routerId: router.id,
      sourceAddress: router.channel.peer.address,
      destinationAddress: router.channel.underlays[0]?.localAddress ?? "",
    });
    this.#tunneler(router.id, router.record.isTunneler);
    void adoption.connected(router, isNewProcess);
    succession.connected(router);
    sessions.connected(router);
    this.#peers.connected(router);
    validation.connected(router);
    rerouter.routerSettled();
    // The entity may have changed between admission and now, unseen.
    this.changed(router.id);
  }

  /** Other routers can dial it elsewhere from now on. */
  listenersChanged(router: RouterConnection): void {
    if (this.#parts.mesh.isCurrent(router)) this.#peers.changed(router);
  }

  disconnected(router: RouterConnection, reason: Error | undefined): void {
    const { mesh, exchange, emit, log } = this.#parts;
    const isCurrent = mesh.disconnected(router);
    exchange.routerLost(router.id);
    if (!isCurrent) return;
    log.info({ routerId: router.id, reason: reason?.message }, "router disconnected");
    emit({ kind: "router-offline", routerId: router.id });
    this.#tunneler(router.id, false);
    if (this.#isClosed) return;
    this.#peers.disconnected(router.id);
    this.#presence.lost(router.id);
  }

  /** The router's entity may not be what it was. */
  changed(routerId: string): void {
    this.#refresh(routerId).catch((err: unknown) => {
      this.#parts.log.error({ routerId, err }, "a changed router could not be read; trying again");
      setTimeout(() => !this.#isClosed && this.changed(routerId), RETRY_MS).unref();
    });
  }

  /** Any router's entity may not be what it was. */
  allChanged(): void {
    for (const { id } of this.#parts.mesh.routers()) this.changed(id);
  }

  /** The router's entity is gone. */
  removed(routerId: string): void {
    const { mesh, circuits } = this.#parts;
    mesh.router(routerId)?.channel.close(new Error("the router was deleted"));
    for (const circuit of circuits.endingAt(routerId)) {
      circuits.end(circuit.id, true, "a router at its end was deleted");
    }
    this.#peers.removed(routerId);
    this.#presence.givenUp(routerId);
  }

  close(): void {
    this.#isClosed = true;
    this.#parts.start.close();
    this.#presence.close();
  }

  /** The router runs as a new process: circuits that begin or end there are gone, and so are the links it had dialed. */
  #forgetProcess(routerId: string): void {
    const { circuits, links } = this.#parts;
    for (const circuit of circuits.endingAt(routerId)) {
      circuits.end(circuit.id, true, "the router was restarted");
    }
    links.forgetDialedBy(routerId);
  }

  /** A router did not come back in time. */
  #gone(routerId: string): void {
    const { identities, links, mesh, rerouter, emit } = this.#parts;
    const unknown = identities.forget(routerId);
    if (unknown.length > 0) emit({ kind: "identities-changed", routerId, online: [], offline: [], unknown });
    links.forgetDialedBy(routerId);
    for (const link of mesh.links.of(routerId)) rerouter.linkLost(link.id);
    rerouter.routerSettled();
  }

  /** Acts on what has become of a connected router's entity. */
  async #refresh(routerId: string): Promise<void> {
    const { model, mesh } = this.#parts;
    if (mesh.router(routerId) === undefined) return;
    const record = await model.findRouter(routerId);
    const router = mesh.router(routerId);
    if (router === undefined) return;
    if (record === undefined) {
      this.removed(routerId);
      return;
    }
    // A renewed certificate changes the fingerprint of a live router; only its absence (re-enrollment) ends the channel.
    if (record.isDisabled || record.fingerprint === undefined) {
      const reason = record.isDisabled ? "the router was disabled" : "the router is to be enrolled again";
      router.channel.close(new Error(reason));
      // It is not to come back: its links carry nothing from now on.
      this.#presence.givenUp(routerId);
      return;
    }
    router.record = record;
    this.#tunneler(routerId, record.isTunneler);
    mesh.changed();
  }

  #tunneler(routerId: string, isConnected: boolean): void {
    const { identities, emit } = this.#parts;
    const { online, offline } = identities.tunneler(routerId, isConnected);
    if (online.length > 0 || offline.length > 0) {
      emit({ kind: "identities-changed", routerId, online, offline, unknown: [] });
    }
  }
}

/**
 * Routers whose control channel ended a moment ago. Their data plane most likely still works, so what they carry is left alone until they come back or the
 * grace time is over.
 */
class Presence {
  readonly #graceMs: number;
  readonly #awaited = new Map<string, NodeJS.Timeout>();
  readonly #onGone: (routerId: string) => void;

  /** `onGone` is called when a router did not come back in time. */
  constructor(graceMs: number, onGone: (routerId: string) => void) {
    this.#graceMs = graceMs;
    this.#onGone = onGone;
  }

  get isAnyAwaited(): boolean {
    return this.#awaited.size > 0;
  }

  lost(routerId: string): void {
    this.back(routerId);
    const timer = setTimeout(() => this.givenUp(routerId), this.#graceMs);
    this.#awaited.set(routerId, timer);
  }

  back(routerId: string): void {
    clearTimeout(this.#awaited.get(routerId));
    this.#awaited.delete(routerId);
  }

  /** Not to be waited for (any longer). */
  givenUp(routerId: string): void {
    this.back(routerId);
    this.#onGone(routerId);
  }

  close(): void {
    for (const timer of this.#awaited.values()) clearTimeout(timer);
    this.#awaited.clear();
  }
}

const { PeerState } = ctrlPb;

type PeerStateChange = Parameters<typeof encodeControl<typeof ctrlPb.PeerStateChangesSchema>>[1];

/** Tells routers of one another, so that they can dial links. */
class PeerStates {
  readonly #mesh: Mesh;

  constructor(mesh: Mesh) {
    this.#mesh = mesh;
  }

  /** The new one hears of all that are connected, they hear of it. */
  connected(router: RouterConnection): void {
    const others = this.#mesh.routers().filter((other) => other.id !== router.id);
    if (others.length > 0) this.#send(router, { changes: others.map(healthy) });
    this.changed(router);
  }

  /** They hear of where it listens now. */
  changed(router: RouterConnection): void {
    this.#toAllBut(router.id, { changes: [healthy(router)] });
  }

  /** Links to it may stay; routers do not dial it until it is back. */
  disconnected(routerId: string): void {
    this.#toAllBut(routerId, { changes: [{ id: routerId, state: PeerState.Unhealthy }] });
  }

  /** Its entity is gone. */
  removed(routerId: string): void {
    this.#toAllBut(routerId, { changes: [{ id: routerId, state: PeerState.Removed }] });
  }

  #toAllBut(routerId: string, changes: PeerStateChange): void {
    for (const router of this.#mesh.routers()) if (router.id !== routerId) this.#send(router, changes);
  }

  #send(router: RouterConnection, changes: PeerStateChange): void {
    const body = encodeControl(ctrlPb.PeerStateChangesSchema, changes);
    router.send({ contentType: ControlType.PeerStateChanges, body });
  }
}

function healthy(router: RouterConnection) {
  return {
    id: router.id,
    version: router.version.version,
    state: PeerState.Healthy,
    listeners: router.listeners.map(({ address, protocol, costTags, groups, localBinding }) => ({
      ...{ address, protocol, localBinding },
      costTags: [...costTags],
      groups: [...groups],
    })),
  };
}
