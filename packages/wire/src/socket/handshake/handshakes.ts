import { type KeyObject, X509Certificate } from "node:crypto";
import type { Socket } from "node:net";
import { localAddress, remoteAddress } from "../../channel/peer.ts";
import { isUsableKey } from "../../identity/trust.ts";
import type { Logger } from "../../log.ts";
import { SharedPlaces } from "../../shared-places.ts";
import type { PresentedCertificate, SecureSocket, SocketAddresses } from "../stream-socket.ts";
import { type HandshakeRefusal, HandshakeTurns, type TurnTaken, type TurnTaker } from "./handshake-turns.ts";

export interface HandshakesOptions {
  /** Connections in their handshake at a time, half of them from one address; 8,192 when not given. */
  readonly max?: number | undefined;
  /** Those of the thread; of this port alone when not given. */
  readonly turns?: HandshakeTurns | undefined;
}

interface UnderWay {
  readonly socket: Socket;
  readonly ip: string;
  /** As logs name it. */
  readonly peer: string;
  readonly release: () => void;
  turn?: TurnTaken;
}

/** A TLS socket, in which Node keeps the socket below it. */
type Above = SocketAddresses & { readonly _parent?: Above | null };

const REASONS: Record<HandshakeRefusal, string> = {
  debt: "handshakes of this address took too long, none is accepted for some time",
  waiting: "too many handshakes of this address wait, this one waited longest",
  silent: "too many handshakes of this address, nothing came in this one",
};
/** Far more than a port can work on within the time of a handshake. */
const MAX_HANDSHAKES = 8_192;

/**
 * The connections of a port that are in their handshake: a bounded number, at most half of them from one address. Beyond that the newest displaces the
 * oldest. Those of one address take turns, and it is refused while it owes for costly ones ({@link HandshakeTurns}).
 */
export class Handshakes {
  readonly #places: SharedPlaces;
  readonly #turns: HandshakeTurns;
  readonly #log: Logger;
  /** By the socket at the bottom. Addresses do not tell connections apart: a client can come from one port to two addresses of this host. */
  readonly #underWay = new Map<SocketAddresses, UnderWay>();

  /** @param log bounded: each connection that is closed is told of */
  constructor(log: Logger, { max = MAX_HANDSHAKES, turns = new HandshakeTurns() }: HandshakesOptions = {}) {
    this.#places = new SharedPlaces({ places: max, perAddress: Math.ceil(max / 2) });
    this.#turns = turns;
    this.#log = log;
  }

  /** A connection was accepted. @returns false when it is refused and closed */
  begin(socket: Socket): boolean {
    const ip = socket.remoteAddress;
    // The client has reset it already.
    if (ip === undefined) {
      socket.destroy();
      return false;
    }
    const peer = remoteAddress(socket);
    if (this.#turns.shutFor(ip) > 0) {
      this.#refuse(socket, { ip, peer }, "debt");
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
    const underWay: UnderWay = { socket, ip, peer, release: () => place.release() };
    this.#underWay.set(socket, underWay);
    socket.once("close", () => this.#end(underWay));
    return true;
  }

  /**
   * Has the handshake of a connection that was let in take its turns: its ClientHello has come, and TLS has not got it.
   *
   * @param socket that of `begin`, or a TLS socket above it
   */
  take(socket: SocketAddresses, taker: Omit<TurnTaker, "ip" | "refuse">): void {
    const underWay = this.#find(socket);
    // It has been closed.
    if (underWay === undefined) return;
    underWay.turn?.end();
    underWay.turn = this.#turns.take({
      ip: underWay.ip,
      // Not a copy: it counts on.
      get bytesRead() {
        return taker.bytesRead;
      },
      begin: () => taker.begin(),
      read: () => taker.read(),
      stopReading: () => taker.stopReading(),
      refuse: (why) => this.#refuse(underWay.socket, underWay, why),
    });
  }

  /**
   * Its handshake is done.
   *
   * @param below as for `take`; `socket` itself when not given
   */
  done(socket: SecureSocket, below: SocketAddresses = socket): void {
    const underWay = this.#find(below);
    if (underWay !== undefined) this.#end(underWay, () => isOrdinaryChain(socket.getPeerX509Certificate()));
  }

  /** Of a socket that does not tell what is below it, by its addresses. */
  #find(socket: Above): UnderWay | undefined {
    let bottom = socket;
    while (bottom._parent) bottom = bottom._parent;
    const found = this.#underWay.get(bottom);
    if (found !== undefined || bottom !== socket || bottom._parent === null) return found;
    return this.#underWay.values().find((underWay) => haveSameEnds(underWay.socket, socket));
  }

  #refuse(socket: Socket, { ip, peer }: Pick<UnderWay, "ip" | "peer">, why: HandshakeRefusal): void {
    const seconds = why === "debt" ? Math.ceil(this.#turns.shutFor(ip) / 1000) : undefined;
    this.#log.info({ peer, reason: REASONS[why], seconds }, "TLS handshake failed");
    socket.destroy();
  }

  #end(underWay: UnderWay, isOrdinary?: () => boolean): void {
    underWay.turn?.end(isOrdinary);
    underWay.release();
    this.#underWay.delete(underWay.socket);
  }
}

function haveSameEnds(one: SocketAddresses, other: SocketAddresses): boolean {
  return remoteAddress(one) === remoteAddress(other) && localAddress(one) === localAddress(other);
}

/** As many as a peer may present. */
const MAX_CERTIFICATES = 10;
/** OpenSSL needs no more than about a millisecond for a signature. Binary curves take three times as long. */
const QUICK_CURVES = new Set([
  "prime256v1",
  "secp384r1",
  "secp521r1",
  "secp256k1",
  "brainpoolP256r1",
  "brainpoolP384r1",
  "brainpoolP512r1",
]);

/** Whether a TLS handshake with this chain takes about as long as with the chains that are in use: OpenSSL verifies every signature in it. */
export function isOrdinaryChain(leaf: PresentedCertificate | undefined): boolean {
  let count = 0;
  for (let next = leaf; next !== undefined; next = next.issuerCertificate) {
    if (++count > MAX_CERTIFICATES || !hasQuickKey(next.raw)) return false;
  }
  return true;
}

function hasQuickKey(der: Buffer): boolean {
  try {
    const { publicKey } = new X509Certificate(der);
    return isUsableKey(publicKey) && isQuickCurve(publicKey);
  } catch {
    // Node reads the key only now.
    return false;
  }
}

function isQuickCurve({ asymmetricKeyDetails }: KeyObject): boolean {
  const curve = asymmetricKeyDetails?.namedCurve;
  return curve === undefined || QUICK_CURVES.has(curve);
}
