import { isIP } from "node:net";
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
    if (infos?.some((info) => info.address === address)) return name;
  }
  return undefined;
}
