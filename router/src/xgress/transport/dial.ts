import { once } from "node:events";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { errorText } from "@sallyport/async";
import {
  type Address,
  AddressError,
  formatAddress,
  formatHostPort,
  type Identity,
  PeerData,
  parseAddress,
  RouteErrorCode,
} from "@sallyport/wire";
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

export interface StreamDialOptions {
  /** Protocol `tcp` or `tls`. */
  readonly target: Address;
  /** For `tls`: who is trusted, and what is presented when the service asks. */
  readonly identity: () => Identity;
  /** The address of this machine to connect from; the system's choice when left out. */
  readonly localAddress?: string | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  /** As `net.connect` takes it. */
  readonly onread?: undefined | { buffer: Uint8Array; callback: (length: number) => boolean };
}

/**
 * Connects to a service, with half close. Of a TLS service the certificate is checked against the network's CAs and the
 * host that was dialled.
 *
 * @throws EgressError `ConnectionRefused` or `DialTimedOut`, or the signal's reason
 */
export async function dialStream(o: StreamDialOptions): Promise<Socket> {
  const { host, port, protocol } = o.target;
  const { localAddress, onread } = o;
  const common = { host, port, localAddress, onread, allowHalfOpen: true, noDelay: true };
  const socket: Socket =
    protocol === "tls"
      ? connectTls({
          ...common,
          secureContext: o.identity().clientContext(),
          ...(isIP(host) === 0 ? { servername: host } : {}),
        })
      : connectTcp(common);
  const timeout = AbortSignal.timeout(o.timeoutMs);
  try {
    await once(socket, protocol === "tls" ? "secureConnect" : "connect", {
      signal: AbortSignal.any([o.signal, timeout]),
    });
    return socket;
  } catch (error) {
    socket.on("error", () => {});
    socket.destroy();
    if (o.signal.aborted) throw o.signal.reason;
    throw dialError(error, timeout.aborted, o);
  }
}

/** What is wrong with a dial, in the words and codes of a RouteResult. */
export function dialError(error: unknown, timedOut: boolean, o: { target: Address; timeoutMs: number }): EgressError {
  const destination = formatAddress(o.target);
  if (timedOut) {
    const text = `no connection to ${destination} within ${o.timeoutMs} ms`;
    return new EgressError(RouteErrorCode.DialTimedOut, text, { cause: error });
  }
  const text = `connecting to ${destination} failed: ${errorText(error)}`;
  const refused = error instanceof Error && "code" in error && error.code === "ECONNREFUSED";
  const code = refused ? RouteErrorCode.ConnectionRefused : RouteErrorCode.DialTimedOut;
  return new EgressError(code, text, { cause: error });
}

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
