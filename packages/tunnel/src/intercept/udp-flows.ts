import { boundedLog, type Logger, SharedPlaces } from "@sallyport/wire";
import type { ClientAddresses, UdpFlow } from "../interceptor.ts";
import { ClientFlow, type OpenTransport } from "../relay/client-flow.ts";
import type { Datagram } from "./native-sockets.ts";

/** Of all flows, for one source: the host itself is often the only one. */
const SHARE = 0.75;

export interface UdpFlowsOptions {
  /** The taker of the flow; undefined: no service wants it, and its datagrams are dropped. */
  readonly accept: (addresses: ClientAddresses) => ((flow: UdpFlow) => void) | undefined;
  readonly idleTimeoutMs: number;
  readonly checkIntervalMs: number;
  /** Flows at a time, three quarters of them of one source address; datagrams of further ones are dropped. Each needs a descriptor. */
  readonly maxFlows: number;
  readonly log: Logger;
}

/** The flows of all services: one for each client address and port, destination address and port. */
export class UdpFlows {
  readonly #options: UdpFlowsOptions;
  readonly #log: Logger;
  readonly #flows = new Map<string, ClientFlow>();
  readonly #places: SharedPlaces;
  readonly #timer: NodeJS.Timeout;
  #refused = 0;

  constructor(options: UdpFlowsOptions) {
    this.#options = options;
    this.#log = boundedLog(options.log);
    const { maxFlows: places } = options;
    this.#places = new SharedPlaces({ places, perAddress: Math.ceil(places * SHARE) });
    this.#timer = setInterval(() => this.#check(), options.checkIntervalMs);
    this.#timer.unref();
  }

  get size(): number {
    return this.#flows.size;
  }

  /** A datagram of a client: of a flow that exists, or the first of a new one. */
  take(datagram: Datagram, open: OpenTransport): void {
    const { sourceIp, sourcePort, destinationIp, destinationPort } = datagram;
    // No answer can be sent to port 0.
    if (sourcePort === 0 || destinationPort === 0) return;
    const key = `${sourceIp} ${sourcePort} ${destinationIp} ${destinationPort}`;
    const known = this.#flows.get(key);
    if (known !== undefined) {
      known.take(datagram.buffer);
      return;
    }
    const addresses: ClientAddresses = { protocol: "udp", sourceIp, sourcePort, destinationIp, destinationPort };
    const consumer = this.#options.accept(addresses);
    if (consumer === undefined) return;
    // No flow gives way to a new one: either source may be forged.
    const place = this.#places.take(sourceIp, () => {});
    if (place === undefined) {
      this.#refused++;
      return;
    }
    place.settle();
    const closed = () => {
      place.release();
      this.#flows.delete(key);
    };
    const flow = new ClientFlow(addresses, open, closed, this.#log);
    if (flow.isClosed) return;
    this.#flows.set(key, flow);
    flow.take(datagram.buffer);
    consumer(flow);
  }

  close(): void {
    clearInterval(this.#timer);
    for (const flow of this.#flows.values()) flow.close();
  }

  #check(): void {
    if (this.#refused > 0) {
      const { log, maxFlows } = this.#options;
      log.warn({ datagrams: this.#refused, maxFlows }, "datagrams of new UDP flows were dropped: too many flows");
      this.#refused = 0;
    }
    const oldest = performance.now() - this.#options.idleTimeoutMs;
    for (const flow of this.#flows.values()) if (flow.lastUse < oldest) flow.close();
  }
}
