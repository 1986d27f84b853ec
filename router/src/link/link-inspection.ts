import type { LinkManager } from "./link-manager.ts";

/** Links and the wishes for links, as operators are shown them. */
export function inspectLinks(manager: LinkManager): Record<string, unknown> {
  return {
    links: manager.links().map((link) => ({
      id: link.id,
      iteration: link.iteration,
      key: link.key,
      split: link.form === "split",
      protocol: link.protocol,
      dialAddress: link.dialAddress,
      dest: link.peerId,
      destVersion: link.peerVersion,
      dialed: link.isDialed,
      underlays: countBy(link.connections().map((connection) => connection.type)),
      connections: link
        .connections()
        .map(({ type, localAddr, remoteAddr }) => ({ Type: type, Source: localAddr, Dest: remoteAddr })),
      connStateIteration: link.stateIteration,
      latencyNs: Math.round(link.latency.mean),
    })),
    destinations: manager.peers().map((peer) => ({
      id: peer.id,
      version: peer.version,
      healthy: peer.isHealthy,
      unhealthySince: peer.unhealthySince === undefined ? undefined : wallTime(peer.unhealthySince),
      linkStates: manager
        .states()
        .filter((state) => state.peerId === peer.id)
        .map((state) => ({
          id: state.linkId,
          key: state.key,
          status: state.status,
          dialAttempts: state.iteration,
          connectedCount: state.connectedCount,
          retryDelay: `${Math.round(state.retryDelay)}ms`,
          nextDial: wallTime(state.nextDial),
          targetAddress: state.listener.address,
          targetGroups: state.listener.groups,
          targetBinding: state.listener.localBinding,
        })),
    })),
    errors: null,
  };
}

/** A time of `performance.now()` as people read it. */
function wallTime(steady: number): string {
  return new Date(Date.now() + steady - performance.now()).toISOString();
}

function countBy(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}
