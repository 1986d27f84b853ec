import type { Socket } from "node:net";
import { SharedPlaces } from "../shared-places.ts";

/** The connections of a server that anybody may reach: so many, half of them from one address. The oldest is ended for a new one. */
export class SharedConnections {
  readonly #places: SharedPlaces;
  readonly #onEnded: () => void;

  /** @param onEnded told of each connection that is ended for a new one */
  constructor(most: number, onEnded: () => void = () => {}) {
    this.#places = new SharedPlaces({ places: most, perAddress: Math.ceil(most / 2) });
    this.#onEnded = onEnded;
  }

  /** Counts a connection until it closes. */
  add(socket: Socket): void {
    const place = this.#places.take(socket.remoteAddress ?? "", () => {
      socket.destroy();
      this.#onEnded();
    });
    if (place === undefined) socket.destroy();
    else socket.once("close", () => place.release());
  }
}
