import type { Socket } from "node:net";
import { remoteAddress } from "../../channel/peer.ts";
import { isOrdinaryChain } from "../../identity/ordinary-chain.ts";
import type { Logger } from "../../log.ts";
import { SharedPlaces } from "../../shared-places.ts";
import type { SecureSocket, SocketAddresses } from "../stream-socket.ts";
import { HandshakeTurns, type TurnTaken, type TurnTaker } from "./handshake-turns.ts";

export interface HandshakesOptions {
  /** Connections in their handshake at a time, half of them from one address; 8,192 when not given. */
  readonly most?: number | undefined;
  /** Those of the thread; of this port alone when not given. */
  readonly turns?: HandshakeTurns | undefined;
}

interface UnderWay {
  readonly socket: Socket;
  readonly release: () => void;
  turn?: TurnTaken;
}

/** Far more than a port can work on within the time of a handshake. */
const MOST_HANDSHAKES = 8_192;

/**
 * The connections of a port that are in their handshake: a bounded number, at most half of them from one address. Beyond that the newest displaces the
 * oldest. Those of one address take turns, and it is refused while it owes for costly ones ({@link HandshakeTurns}).
 */
export class Handshakes {
  readonly #places: SharedPlaces;
  readonly #turns: HandshakeTurns;
  readonly #log: Logger;
  /** By the other end's address and port, which a TLS socket and the one below it have in common. */
  readonly #underWay = new Map<string, UnderWay>();

  /** @param log bounded: each connection that is closed is told of */
  constructor(log: Logger, { most = MOST_HANDSHAKES, turns = new HandshakeTurns() }: HandshakesOptions = {}) {
    this.#places = new SharedPlaces({ places: most, perAddress: Math.ceil(most / 2) });
    this.#turns = turns;
    this.#log = log;
  }

  /** A connection was accepted. @returns false when it is refused and closed */
  begin(socket: Socket): boolean {
    const peer = remoteAddress(socket);
    const ip = socket.remoteAddress ?? "";
    if (this.#turns.shutFor(ip) > 0) {
      this.#refuse(socket, peer);
      return false;
    }
    const place = this.#places.take(ip, () => {
      this.#log.info({ peer, reason: "too many handshakes, this one took longest" }, "TLS handshake failed");
      socket.destroy();
    });
    if (place === undefined) {
      socket.destroy();
      return false;
    }
    const underWay: UnderWay = { socket, release: () => place.release() };
    this.#underWay.set(peer, underWay);
    socket.once("close", () => this.#end(peer, underWay));
    return true;
  }

  /** Has the handshake of a connection that was let in take its turns: its ClientHello has come, and TLS has not got it. */
  take(socket: SocketAddresses, taker: Omit<TurnTaker, "ip" | "refuse">): void {
    const peer = remoteAddress(socket);
    const underWay = this.#underWay.get(peer);
    // It has been closed.
    if (underWay === undefined) return;
    underWay.turn = this.#turns.take({
      ip: socket.remoteAddress ?? "",
      // Not a copy: it counts on.
      get bytesRead() {
        return taker.bytesRead;
      },
      begin: () => taker.begin(),
      read: () => taker.read(),
      stopReading: () => taker.stopReading(),
      refuse: () => this.#refuse(underWay.socket, peer),
    });
  }

  /** Its handshake is done. */
  done(socket: SecureSocket): void {
    const peer = remoteAddress(socket);
    const underWay = this.#underWay.get(peer);
    if (underWay !== undefined) this.#end(peer, underWay, () => isOrdinaryChain(socket.getPeerX509Certificate()));
  }

  #refuse(socket: Socket, peer: string): void {
    const seconds = Math.ceil(this.#turns.shutFor(socket.remoteAddress ?? "") / 1000);
    const reason = "handshakes of this address took too long, none is accepted for some time";
    this.#log.info({ peer, reason, seconds }, "TLS handshake failed");
    socket.destroy();
  }

  #end(peer: string, underWay: UnderWay, isOrdinary?: () => boolean): void {
    underWay.turn?.end(isOrdinary);
    underWay.release();
    if (this.#underWay.get(peer) === underWay) this.#underWay.delete(peer);
  }
}
