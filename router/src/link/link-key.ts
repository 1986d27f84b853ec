/**
 * Names what a link connects: two links with the same key are duplicates (docs/protocol/links.md, "Link key"). Empty
 * bindings are written as `default`.
 */
export function linkKey(o: {
  dialerBinding: string;
  protocol: string;
  peerId: string;
  listenerBinding: string;
}): string {
  return `${o.dialerBinding || "default"}->${o.protocol}:${o.peerId}->${o.listenerBinding || "default"}`;
}
