/** What one user of a shared TLS port answers to. */
export interface AlpnEntry {
  readonly protocols: readonly string[];
  /** Takes clients that offer no ALPN. */
  readonly acceptsNoAlpn: boolean;
}

export interface AlpnChoice<T extends AlpnEntry> {
  readonly entry: T;
  /** What the server answers; absent when the client offered nothing. */
  readonly protocol?: string;
}

/**
 * Which user of a shared port gets a connection (docs/protocol/channel.md, "Shared ports").
 *
 * - Of the client's offers, the LAST one that a user registered wins.
 * - Offers that no user registered: the handshake is refused.
 * - No offers: the only name on the port if there is exactly one, else the user that accepts clients without ALPN, else none.
 */
export function selectAlpn<T extends AlpnEntry>(
  offered: readonly string[],
  registered: readonly T[],
): AlpnChoice<T> | undefined {
  if (offered.length > 0) {
    for (const protocol of offered.toReversed()) {
      const entry = registered.find((candidate) => candidate.protocols.includes(protocol));
      if (entry) return { entry, protocol };
    }
    return undefined;
  }
  const names = registered.reduce((sum, entry) => sum + entry.protocols.length + (entry.acceptsNoAlpn ? 1 : 0), 0);
  const only = names === 1 ? registered.find((entry) => entry.protocols.length > 0) : undefined;
  const entry = only ?? registered.find((candidate) => candidate.acceptsNoAlpn);
  return entry && { entry };
}
