import type { ReconnectingDialer } from "@sallyport/wire";

interface Endpoint {
  /** Absent while it rests: its controller is connected by another address. */
  dialer: ReconnectingDialer | undefined;
  /** The controller that answers there, as it was announced or as it said itself. */
  controllerId: string | undefined;
  /** An operator of this router wants no connection to it. */
  isSuspended: boolean;
}

/**
 * The addresses where controllers answer, and what dials them. A controller may have several; while it is connected by
 * one of them the others rest, because it would take a second connection of this router for the router's return.
 */
export class ControllerEndpoints {
  readonly #dialerOf: (address: string) => ReconnectingDialer;
  readonly #known = new Map<string, Endpoint>();

  /** @param dialerOf makes what dials an address; it is started here */
  constructor(dialerOf: (address: string) => ReconnectingDialer) {
    this.#dialerOf = dialerOf;
  }

  /** Those that may be dialed. */
  get addresses(): string[] {
    return [...this.#known].filter(([, { isSuspended }]) => !isSuspended).map(([address]) => address);
  }

  /**
   * Dials what is new and stops what is no longer listed.
   *
   * @param owners id of the controller that answers at an address, as far as it is known
   * @param connected whether a controller is connected now
   */
  replace(
    addresses: Iterable<string>,
    owners: ReadonlyMap<string, string>,
    connected: (controllerId: string) => boolean,
  ): void {
    const wanted = new Set(addresses);
    for (const [address, endpoint] of this.#known) {
      if (wanted.has(address)) continue;
      this.#known.delete(address);
      rest(endpoint, "the controller's address is no longer announced");
    }
    for (const address of wanted) {
      const controllerId = owners.get(address);
      const known = this.#known.get(address);
      if (known !== undefined) {
        known.controllerId = controllerId ?? known.controllerId;
        continue;
      }
      const endpoint: Endpoint = { dialer: undefined, controllerId, isSuspended: false };
      this.#known.set(address, endpoint);
      if (controllerId === undefined || !connected(controllerId)) this.#dial(address, endpoint);
    }
  }

  /** A controller is connected by `address`: its others rest. */
  connected(address: string, controllerId: string): void {
    for (const [each, endpoint] of this.#known) {
      if (each === address) endpoint.controllerId = controllerId;
      else if (endpoint.controllerId === controllerId) rest(endpoint, "its controller is connected by another address");
    }
  }

  /** At `address` answers a controller that is connected already. */
  isAnother(address: string, controllerId: string): void {
    const endpoint = this.#known.get(address);
    if (endpoint === undefined) return;
    endpoint.controllerId = controllerId;
    rest(endpoint, "this controller is already connected by another address");
  }

  /** A controller is not connected any more: each of its addresses is dialed again. */
  lost(controllerId: string): void {
    for (const [address, endpoint] of this.#known) {
      if (endpoint.controllerId === controllerId) this.#dial(address, endpoint);
    }
  }

  /** Closes the channel to the controller at `address`, which is not dialed there or elsewhere until {@link resume}. */
  suspend(address: string): void {
    for (const endpoint of this.#together(address)) {
      endpoint.isSuspended = true;
      rest(endpoint, "an operator of this router disconnected the controller");
    }
  }

  resume(address: string): void {
    for (const endpoint of this.#together(address)) endpoint.isSuspended = false;
    const endpoint = this.#known.get(address);
    if (endpoint !== undefined) this.#dial(address, endpoint);
  }

  stop(): void {
    for (const endpoint of this.#known.values()) rest(endpoint);
    this.#known.clear();
  }

  /** An address, and the others of the controller that answers there. */
  #together(address: string): Endpoint[] {
    const endpoint = this.#known.get(address);
    const { controllerId } = endpoint ?? {};
    if (endpoint === undefined || controllerId === undefined) return endpoint === undefined ? [] : [endpoint];
    return [...this.#known.values()].filter((each) => each.controllerId === controllerId);
  }

  #dial(address: string, endpoint: Endpoint): void {
    if (endpoint.isSuspended || endpoint.dialer !== undefined) return;
    endpoint.dialer = this.#dialerOf(address);
    endpoint.dialer.start();
  }
}

function rest(endpoint: Endpoint, reason?: string): void {
  const { dialer } = endpoint;
  endpoint.dialer = undefined;
  dialer?.current?.close(reason === undefined ? undefined : new Error(reason));
  void dialer?.stop();
}
