import type { Socket } from "node:net";
import { remoteAddress } from "../channel/peer.ts";
import type { Logger } from "../log.ts";
import { type Place, SharedPlaces } from "../shared-places.ts";
import type { SocketAddresses } from "./stream-socket.ts";

/** Far more than a port can work on within the time of a handshake. */
const MOST_HANDSHAKES = 8_192;

/**
 * The connections of a port that are in their handshake: a bounded number, at most half of them from one address. Beyond that the newest displaces the
 * oldest.
 */
export class Handshakes {
  readonly #places: SharedPlaces;
  readonly #log: Logger;
  /** By the other end's address and port, which a TLS socket and the one below it have in common. */
  readonly #underWay = new Map<string, Place>();

  /** @param log bounded: each connection that is closed for a new one is told of @param most 8,192 when not given */
  constructor(log: Logger, most: number = MOST_HANDSHAKES) {
    this.#places = new SharedPlaces({ places: most, perAddress: Math.ceil(most / 2) });
    this.#log = log;
  }

  /** A connection was accepted. */
  begin(socket: Socket): void {
    const peer = remoteAddress(socket);
    const place = this.#places.take(socket.remoteAddress ?? "", () => {
      this.#log.info({ peer, reason: "too many handshakes, this one took longest" }, "TLS handshake failed");
      socket.destroy();
    });
    if (place === undefined) {
      socket.destroy();
      return;
    }
    this.#underWay.set(peer, place);
    socket.once("close", () => this.#end(peer, place));
  }

  /** Its handshake is done. */
  done(socket: SocketAddresses): void {
    const peer = remoteAddress(socket);
    const place = this.#underWay.get(peer);
    if (place !== undefined) this.#end(peer, place);
  }

  #end(peer: string, place: Place): void {
    place.release();
    if (this.#underWay.get(peer) === place) this.#underWay.delete(peer);
  }
}
