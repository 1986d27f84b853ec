import { ConnType, EdgeHeader, EdgeType, Headers, type Message } from "@sallyport/wire";
import type { EdgeChannel, EdgeEndpoint } from "../edge-channel.ts";

const LINGER_MS = 30_000;

/**
 * Keeps the id of a connection that both ends have ended, until the other end closes it. Whoever ended last must not
 * close first: its bytes may still be on their way, and routers in the field stop repeating lost ones at the close. No
 * process is kept alive by it, and the end of its context waits for it as for other last bytes, a moment at most.
 */
export class Lingering implements EdgeEndpoint {
  readonly connType = ConnType.Dial;
  readonly #edge: EdgeChannel;
  readonly #id: number;
  readonly #timer: NodeJS.Timeout;

  constructor(edge: EdgeChannel, id: number) {
    this.#edge = edge;
    this.#id = id;
    this.#timer = setTimeout(() => this.#close(), LINGER_MS);
    this.#timer.unref();
    edge.finishing(this);
    edge.assign(id, this);
  }

  describe(): string {
    return JSON.stringify({ id: this.#id, state: "ended in both directions" });
  }

  onData(): void {}

  onCircuitFrame(): void {}

  onMessage(message: Message): void {
    if (message.contentType === EdgeType.StateClosed) this.#forget();
  }

  onLost(): void {
    clearTimeout(this.#timer);
    this.#edge.finished(this);
  }

  #close(): void {
    this.#forget();
    if (this.#edge.isClosed) return;
    const headers = new Headers().setU32(EdgeHeader.ConnId, this.#id);
    this.#edge.channel.send({ contentType: EdgeType.StateClosed, headers });
  }

  #forget(): void {
    clearTimeout(this.#timer);
    this.#edge.remove(this.#id, this);
    this.#edge.finished(this);
  }
}
