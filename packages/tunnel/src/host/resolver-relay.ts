import type { OverlayConnection, OverlayHandler } from "../overlay.ts";
import type { Relay } from "../relay/relays.ts";
import type { AllowedAddresses } from "./allowed-addresses.ts";
import { answerQuestion, type HostResolver } from "./resolver.ts";

/** Questions that are being answered at the same time; further ones wait in the circuit. */
const MAX_OPEN = 32;

/** A circuit of questions for this machine's name server, one message each. */
export class ResolverRelay implements OverlayHandler, Relay {
  readonly #connection: OverlayConnection;
  readonly #allowed: AllowedAddresses | undefined;
  readonly #server: HostResolver | undefined;
  readonly #onEnd: (reason: string) => void;
  #open = 0;
  #isBlocked = false;
  /** The dialer has room for answers. */
  #hasRoom = true;
  #isOver = false;

  /** @param allowed the names that may be asked for; undefined: none */
  constructor(
    connection: OverlayConnection,
    allowed: AllowedAddresses | undefined,
    onEnd: (reason: string) => void,
    server?: HostResolver,
  ) {
    this.#connection = connection;
    this.#allowed = allowed;
    this.#onEnd = onEnd;
    this.#server = server;
  }

  start(): void {
    this.#connection.start(this);
  }

  close(reason: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#connection.close(reason);
    this.#onEnd(reason);
  }

  data(buffer: Buffer, start: number, end: number): boolean {
    if (this.#open >= MAX_OPEN || !this.#hasRoom) {
      this.#isBlocked = true;
      return false;
    }
    this.#open++;
    void answerQuestion(buffer.toString("utf8", start, end), this.#allowed, this.#server).then((text) => {
      this.#open--;
      if (this.#isOver) return;
      const answer = Buffer.from(text);
      this.#hasRoom = this.#connection.write(answer, 0, answer.length) && this.#hasRoom;
      this.#unblock();
    });
    return true;
  }

  endOfData(): void {
    this.close("the other end has ended");
  }

  writable(): void {
    this.#hasRoom = true;
    this.#unblock();
  }

  closed(error?: Error): void {
    this.close(error?.message ?? "the circuit ended");
  }

  /** Whoever asks without taking the answers is not asked to go on. */
  #unblock(): void {
    if (!this.#isBlocked || !this.#hasRoom) return;
    this.#isBlocked = false;
    this.#connection.resume();
  }
}
