import type { PeerListener } from "./dial-state.ts";

/** State of another router as a controller announced it. */
export interface PeerChange {
  readonly id: string;
  /** Set when healthy. */
  readonly version: string;
  readonly state: "healthy" | "unhealthy" | "removed";
  readonly listeners: readonly PeerListener[];
}

/** Another router that this one knows of. */
export interface KnownPeer {
  readonly id: string;
  version: string;
  isHealthy: boolean;
  /** By `performance.now()`. */
  unhealthySince: number | undefined;
  listeners: readonly PeerListener[];
}

/** An unhealthy peer without a link is forgotten after this long. */
export const FORGET_AFTER_MS = 48 * 3_600_000;

/** True when a dialer and a listener have a group in common; a listener without groups is in `default`. */
export function sharesGroup(dialer: readonly string[], listener: readonly string[]): boolean {
  const groups = listener.length === 0 ? ["default"] : listener;
  return groups.some((group) => dialer.includes(group));
}
