import { type Address, AddressError, parseAddress, RouteErrorCode } from "@sallyport/wire";
import { EgressError } from "../../forwarder/egress.ts";

/**
 * Reads the address of a terminator.
 *
 * @param protocols those that the binding dials
 * @throws EgressError `MisconfiguredTerminator` which says what the binding takes
 */
export function targetOf(destination: string, binding: string, protocols: readonly string[]): Address {
  let found: string | undefined;
  try {
    const target = parseAddress(destination);
    if (protocols.includes(target.protocol) && target.host !== "" && target.port > 0) return target;
    found = target.protocol;
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
  }
  const why = found === "dtls" ? " (there is no DTLS in this router; use udp, or tls)" : "";
  throw new EgressError(
    RouteErrorCode.MisconfiguredTerminator,
    `terminator address ${destination} is not of the form <protocol>:host:port with a protocol that binding ${binding} dials: ${protocols.join(", ")}${why}`,
  );
}
