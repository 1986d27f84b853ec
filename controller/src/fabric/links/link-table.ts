import type { PathLink } from "../circuits/path.ts";
import type { LinkSetting } from "../replicas.ts";

/** One connection a link consists of. */
interface LinkConnection {
  readonly type: string;
  readonly localAddress: string;
  readonly remoteAddress: string;
}

export interface LinkConnectionState {
  readonly stateIteration: number;
  readonly connections: readonly LinkConnection[];
}

/** A link as its dialing router reports it. */
export interface LinkReport {
  readonly id: string;
  readonly destination: string;
  readonly protocol: string;
  readonly dialAddress: string;
  /** Grows with every redial under the same id. */
  readonly iteration: number;
  readonly connectionState?: LinkConnectionState | undefined;
}

export interface Link {
  readonly id: string;
  /** The router that dialed. */
  readonly source: string;
  readonly destination: string;
  readonly protocol: string;
  readonly dialAddress: string;
  readonly iteration: number;
  readonly state: "connected" | "failed";
  /** Since when it has been in this state. */
  readonly stateSince: number;
  /** Taken out of service by an administrator. */
  readonly isDown: boolean;
  readonly staticCost: number;
  readonly sourceLatencyNs: number;
  readonly destinationLatencyNs: number;
  readonly connectionState: LinkConnectionState;
}

type FaultOutcome =
  | { readonly kind: "failed"; readonly link: Link }
  /** The fault is about an earlier iteration, or the link is down already. */
  | { readonly kind: "stale"; readonly link: Link }
  | { readonly kind: "unknown" };

const NS_PER_MS = 1_000_000;
const DEFAULT_STATIC_COST = 1;
/** How long a failed link stays listed, so that an administrator sees it. */
const FAILED_LINK_KEPT_MS = 30_000;

/** Memory that a router can claim has a bound: links it has dialed, connections of one, characters of an id or an address. */
export const MAX_LINKS_PER_ROUTER = 10_000;
const MAX_CONNECTIONS = 64;
const MAX_TEXT = 256;

/** Static cost plus the latencies of both ends in whole milliseconds. */
export function linkCost(link: Pick<Link, "staticCost" | "sourceLatencyNs" | "destinationLatencyNs">): number {
  return (
    link.staticCost + Math.floor(link.sourceLatencyNs / NS_PER_MS) + Math.floor(link.destinationLatencyNs / NS_PER_MS)
  );
}

export interface LinkState extends Link {
  /** What path finding counts for it. */
  readonly cost: number;
}

export function linkState(link: Link): LinkState {
  return { ...link, cost: linkCost(link) };
}

/**
 * The links between routers as routers have reported them. Routers make and lose links by themselves; the controller records them, attributes
 * latencies to them and hands the usable ones to path finding. No I/O. Source: docs/protocol/fabric.md, "Links".
 */
export class LinkTable {
  readonly #links = new Map<string, Link>();
  /** Number of links by the router that dialed them. */
  readonly #dialed = new Map<string, number>();
  readonly #initialLatencyNs: number;
  readonly #onTopologyChange: () => void;
  readonly #settingOf: (id: string) => LinkSetting | undefined;

  /**
   * `onTopologyChange` is called whenever the usable links or their costs may have changed; `settingOf` says what is set of a link that is not known yet.
   */
  constructor(
    initialLatencyMs: number,
    onTopologyChange: () => void,
    settingOf: (id: string) => LinkSetting | undefined = () => undefined,
  ) {
    this.#settingOf = settingOf;
    this.#initialLatencyNs = initialLatencyMs * NS_PER_MS;
    this.#onTopologyChange = onTopologyChange;
  }

  get(id: string): Link | undefined {
    return this.#links.get(id);
  }

  all(): Link[] {
    return [...this.#links.values()];
  }

  /** Links with `routerId` at one end. */
  of(routerId: string): Link[] {
    return this.all().filter((l) => l.source === routerId || l.destination === routerId);
  }

  /** Input of path finding; whether both routers are connected is for the path finder to see. */
  usable(): PathLink[] {
    return this.all()
      .filter((l) => isUsable(l))
      .map((l) => ({ id: l.id, source: l.source, destination: l.destination, cost: linkCost(l) }));
  }

  /**
   * Records a report of `source`. An unknown link is added as connected. A known one is replaced only by a higher iteration: a report that crossed a fault of
   * the same iteration must not bring the link back. A report of another router than the one that dialed is refused, as is one beyond the bounds.
   */
  report(source: string, report: LinkReport, now: number): "added" | "replaced" | "kept" | "refused" {
    const known = this.#links.get(report.id);
    if (known !== undefined && known.source !== source) return "refused";
    if (known !== undefined && known.iteration >= report.iteration) return "kept";
    if (known === undefined && (this.#dialed.get(source) ?? 0) >= MAX_LINKS_PER_ROUTER) return "refused";
    if (!isOfUsualSize(report)) return "refused";
    const setting = known ?? this.#settingOf(report.id);
    this.#put({
      ...report,
      source,
      state: "connected",
      stateSince: now,
      isDown: setting?.isDown ?? false,
      staticCost: setting?.staticCost ?? DEFAULT_STATIC_COST,
      sourceLatencyNs: known?.sourceLatencyNs ?? this.#initialLatencyNs,
      destinationLatencyNs: known?.destinationLatencyNs ?? this.#initialLatencyNs,
      connectionState: report.connectionState ?? { stateIteration: 0, connections: [] },
    });
    return known === undefined ? "added" : "replaced";
  }

  /** New connections of a link. Counts only for the iteration that is known and when newer than what is stored. */
  updateConnections(source: string, id: string, iteration: number, state: LinkConnectionState): boolean {
    const link = this.#links.get(id);
    if (link === undefined || link.source !== source || link.iteration !== iteration) return false;
    if (state.stateIteration <= link.connectionState.stateIteration) return false;
    if (!areOfUsualSize(state.connections)) return false;
    this.#links.set(id, { ...link, connectionState: state });
    return true;
  }

  /** A router (one of the two ends) says that the link is gone. An iteration of 0 on either side means "whatever it is". */
  fault(reporter: string, id: string, iteration: number, now: number): FaultOutcome {
    const link = this.#links.get(id);
    if (link === undefined || (link.source !== reporter && link.destination !== reporter)) return { kind: "unknown" };
    const isOlder = iteration !== 0 && link.iteration !== 0 && iteration < link.iteration;
    if (isOlder || link.state === "failed") return { kind: "stale", link };
    const failed: Link = { ...link, state: "failed", stateSince: now };
    this.#put(failed);
    return { kind: "failed", link: failed };
  }

  /** `routerId` measured the latency of its end of a link. */
  setLatency(routerId: string, id: string, latencyNs: number): void {
    const link = this.#links.get(id);
    if (link === undefined || !Number.isFinite(latencyNs) || latencyNs < 0) return;
    const latency = Math.floor(latencyNs);
    if (link.source === routerId && link.sourceLatencyNs !== latency) {
      this.#put({ ...link, sourceLatencyNs: latency });
    } else if (link.destination === routerId && link.destinationLatencyNs !== latency) {
      this.#put({ ...link, destinationLatencyNs: latency });
    }
  }

  /** An administrator's change; undefined when there is no such link. */
  update(id: string, change: { readonly staticCost?: number; readonly isDown?: boolean }): Link | undefined {
    const link = this.#links.get(id);
    if (link === undefined) return undefined;
    const updated: Link = { ...link, ...change };
    this.#put(updated);
    return updated;
  }

  remove(id: string): Link | undefined {
    const link = this.#links.get(id);
    if (link === undefined) return undefined;
    this.#delete(link);
    this.#onTopologyChange();
    return link;
  }

  /** Drops links that failed a while ago. */
  sweep(now: number): void {
    for (const link of this.#links.values()) {
      if (link.state === "failed" && now - link.stateSince >= FAILED_LINK_KEPT_MS) this.#delete(link);
    }
  }

  #put(link: Link): void {
    if (!this.#links.has(link.id)) this.#dialed.set(link.source, (this.#dialed.get(link.source) ?? 0) + 1);
    this.#links.set(link.id, link);
    this.#onTopologyChange();
  }

  #delete(link: Link): void {
    this.#links.delete(link.id);
    const left = (this.#dialed.get(link.source) ?? 1) - 1;
    if (left > 0) this.#dialed.set(link.source, left);
    else this.#dialed.delete(link.source);
  }
}

function isOfUsualSize({ id, destination, protocol, dialAddress, connectionState }: LinkReport): boolean {
  if ([id, destination, protocol, dialAddress].some((text) => text.length > MAX_TEXT)) return false;
  return connectionState === undefined || areOfUsualSize(connectionState.connections);
}

function areOfUsualSize(connections: readonly LinkConnection[]): boolean {
  if (connections.length > MAX_CONNECTIONS) return false;
  return connections.every((c) => [c.type, c.localAddress, c.remoteAddress].every((text) => text.length <= MAX_TEXT));
}

/** May carry circuits, as far as the link itself knows. */
export function isUsable(link: Link): boolean {
  return link.state === "connected" && !link.isDown;
}
