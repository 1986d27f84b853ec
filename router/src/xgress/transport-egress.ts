import { once } from "node:events";
import { AddressError, PeerData, parseAddress, RouteErrorCode, Xgress, type XgressOptions } from "@sallyport/wire";
import { type EgressBinding, EgressError, type EgressRequest } from "../forwarder/egress.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { TransportPort } from "./transport-port.ts";

/** The egress binding `transport`: connects circuits to TCP addresses, `tcp:host:port` (docs/protocol/data-path.md, "Transport"). */
export class TransportEgress implements EgressBinding {
  readonly #forwarder: Forwarder;
  readonly #options: XgressOptions;
  readonly #connectTimeoutMs: number;

  /** @param o.connectTimeoutMs longest wait for a connection; 0: as long as the controller waits */
  constructor(forwarder: Forwarder, o: { xgress: XgressOptions; connectTimeoutMs: number }) {
    this.#forwarder = forwarder;
    this.#options = o.xgress;
    this.#connectTimeoutMs = o.connectTimeoutMs;
  }

  async dial(request: EgressRequest): Promise<Map<number, Buffer>> {
    const target = targetOf(request.destination);
    const port = new TransportPort(target);
    const timeoutMs =
      this.#connectTimeoutMs > 0 ? Math.min(this.#connectTimeoutMs, request.timeoutMs) : request.timeoutMs;
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      await once(port.socket, "connect", { signal: AbortSignal.any([request.signal, timeout]) });
    } catch (error) {
      port.socket.destroy();
      if (request.signal.aborted) throw request.signal.reason;
      throw dialError(error, timeout.aborted, request.destination, timeoutMs);
    }
    port.attach(
      new Xgress({
        fabric: this.#forwarder,
        circuitId: request.circuitId,
        address: request.address,
        side: "terminator",
        port,
        options: this.#options,
      }),
    );
    const { localAddress, localPort, remoteAddress, remotePort } = port.socket;
    return new Map([
      [PeerData.TerminatorLocalAddress, Buffer.from(`${localAddress}:${localPort}`, "utf8")],
      [PeerData.TerminatorRemoteAddress, Buffer.from(`${remoteAddress}:${remotePort}`, "utf8")],
    ]);
  }
}

function targetOf(destination: string): { host: string; port: number } {
  try {
    const { protocol, host, port } = parseAddress(destination);
    if (protocol === "tcp") return { host, port };
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
  }
  throw new EgressError(
    RouteErrorCode.MisconfiguredTerminator,
    `terminator address ${destination} is not of the form tcp:host:port, which binding transport dials`,
  );
}

function dialError(error: unknown, timedOut: boolean, destination: string, timeoutMs: number): EgressError {
  if (timedOut) {
    const text = `no connection to ${destination} within ${timeoutMs} ms`;
    return new EgressError(RouteErrorCode.DialTimedOut, text, { cause: error });
  }
  const text = `connecting to ${destination} failed: ${error instanceof Error ? error.message : String(error)}`;
  const refused = error instanceof Error && "code" in error && error.code === "ECONNREFUSED";
  const code = refused ? RouteErrorCode.ConnectionRefused : RouteErrorCode.DialTimedOut;
  return new EgressError(code, text, { cause: error });
}
