import { BlockList, isIP } from "node:net";
import { type NetworkInterfaceInfo, networkInterfaces } from "node:os";

type Interfaces = NodeJS.Dict<NetworkInterfaceInfo[]>;

/** The name of a local bind is neither an interface of this machine nor one of its addresses. */
export class BindError extends Error {
  override readonly name = "BindError";
  readonly code = "NO_SUCH_INTERFACE";
}

/**
 * The local address of an interface name or of a local IP.
 *
 * @throws BindError
 */
export function resolveBind(bind: string, interfaces: Interfaces = networkInterfaces()): string {
  if (isIP(bind) !== 0 && interfaceOf(bind, interfaces) !== undefined) return bind;
  const first = interfaces[bind]?.[0]?.address;
  if (first !== undefined) return first;
  const known = Object.keys(interfaces).join(", ");
  throw new BindError(`expected an interface or an address of this machine (${known}), found "${bind}"`);
}

/** Name of the interface that has this address; none for wildcard addresses and names. */
export function interfaceOf(address: string, interfaces: Interfaces = networkInterfaces()): string | undefined {
  for (const [name, infos] of Object.entries(interfaces)) {
    if (infos?.some((info) => info.address === address || isLoopback(info, address))) return name;
  }
  return undefined;
}

/** On Linux the whole network of the loopback interface is this machine: 127.0.0.2 is as good as 127.0.0.1. */
function isLoopback({ internal, cidr }: NetworkInterfaceInfo, address: string): boolean {
  const [network = "", length] = cidr?.split("/") ?? [];
  const family = isIP(network);
  if (process.platform !== "linux" || !internal || length === undefined || family === 0 || isIP(address) !== family)
    return false;
  const own = new BlockList();
  const type = family === 6 ? "ipv6" : "ipv4";
  own.addSubnet(network, Number(length), type);
  return own.check(address, type);
}
