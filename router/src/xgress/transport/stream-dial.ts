import { once } from "node:events";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { errorText } from "@sallyport/async";
import { type Address, formatAddress, type Identity, RouteErrorCode } from "@sallyport/wire";
import { EgressError } from "../../forwarder/egress.ts";

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
  readonly onread?: { buffer: Uint8Array; callback: (length: number) => boolean };
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
  const common = {
    ...{ host, port, allowHalfOpen: true, noDelay: true },
    ...(localAddress === undefined ? {} : { localAddress }),
    ...(onread === undefined ? {} : { onread }),
  };
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
