/** A tunneler's app data is a few hundred bytes; applications may send what they like. */
const MAX_BYTES = 4_096;

/**
 * Whether the dialling end says that it sends datagrams: a tunneler tells the hosting one the protocol of its client in the
 * app data (docs/protocol/tunneler.md, "App data"), and asks for names in datagrams, too. An application's app data is its own.
 */
export function saysDatagrams(appData: Buffer | undefined): boolean {
  if (appData === undefined || appData.length > MAX_BYTES || appData[0] !== 0x7b) return false;
  try {
    const { dst_protocol: protocol, connType } = JSON.parse(appData.toString("utf8"));
    return protocol === "udp" || connType === "resolver";
  } catch {
    return false;
  }
}
