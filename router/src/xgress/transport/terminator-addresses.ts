import { formatHostPort, PeerData } from "@sallyport/wire";

/** Peer data with both ends of the connection to a service. */
export function addressesOf(
  local: readonly [string, number | undefined],
  remote: readonly [string, number | undefined],
): Map<number, Buffer> {
  const text = ([host, port]: readonly [string, number | undefined]) =>
    Buffer.from(formatHostPort({ host, port: port ?? 0 }), "utf8");
  return new Map([
    [PeerData.TerminatorLocalAddress, text(local)],
    [PeerData.TerminatorRemoteAddress, text(remote)],
  ]);
}
