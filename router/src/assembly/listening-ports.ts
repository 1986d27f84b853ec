import { type Address, formatAddress, type HandshakeTurns, type Logger, TlsPort } from "@sallyport/wire";
import type { RouterIdentity } from "../config/router-identity.ts";

export interface ListeningPortsOptions {
  readonly identity: RouterIdentity;
  readonly handshakeTimeoutMs: number;
  /** Of all ports. */
  readonly turns: HandshakeTurns;
  readonly log: Logger;
  readonly stops: (() => void | Promise<void>)[];
}

/** The router's TLS ports, one per address, each opened when it is first asked for. They follow the identity. */
export class ListeningPorts {
  readonly #o: ListeningPortsOptions;
  readonly #ports = new Map<string, TlsPort>();

  constructor(options: ListeningPortsOptions) {
    this.#o = options;
    options.identity.onChange((next) => {
      for (const port of this.#ports.values()) port.setIdentity(next);
    });
  }

  /** @throws what listening throws */
  async at(address: Address): Promise<TlsPort> {
    const { identity, handshakeTimeoutMs, turns, log, stops } = this.#o;
    const host = address.host === "" ? "::" : address.host;
    const name = formatAddress({ ...address, host });
    const known = this.#ports.get(name);
    if (known !== undefined) return known;
    const port = await TlsPort.listen({
      host,
      port: address.port,
      identity: identity.current,
      handshakeTimeoutMs,
      turns,
      log,
    });
    this.#ports.set(name, port);
    stops.push(() => port.close());
    log.info({ address: name, port: port.port }, "listening");
    return port;
  }
}
