import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import { GARBLED } from "../../packages/wire/src/testing/disturbed-way.ts";

/** What a way does with what comes. */
type Mode = "open" | "refusing" | "swallowing";

interface Pair {
  readonly near: Socket;
  readonly far: Socket;
  swallowed: boolean;
}

/**
 * A TCP way to a port of this machine which a test can cut: by reset, or silently, so that both ends keep their connection and
 * hear nothing more. What was swallowed is gone: such a connection stays dead when the way is healed, new ones work.
 */
export class TcpWay {
  readonly port: number;
  /** Milliseconds that each chunk is held up, in each direction; order is kept. */
  delayMs = 0;
  readonly #server: Server;
  readonly #host: string;
  #targetPort: number;
  readonly #pairs = new Set<Pair>();
  #mode: Mode = "open";

  private constructor(server: Server, host: string, targetPort: number) {
    this.#server = server;
    this.#host = host;
    this.#targetPort = targetPort;
    this.port = (server.address() as { port: number }).port;
    server.on("connection", (near) => this.#accept(near));
  }

  /** @param targetPort 0: connections are refused until `leadTo` says where they go */
  static async start(targetPort: number, host = "127.0.0.1"): Promise<TcpWay> {
    const server = createServer({ allowHalfOpen: true, noDelay: true, pauseOnConnect: true }).listen(0, host);
    await once(server, "listening");
    return new TcpWay(server, host, targetPort);
  }

  /** Where new connections go from now on. */
  leadTo(port: number): void {
    this.#targetPort = port;
  }

  /** Connections that carry something. */
  get open(): number {
    return [...this.#pairs].filter(carries).length;
  }

  /** Connections that were swallowed and that one end at least still holds. */
  get dead(): number {
    return [...this.#pairs].filter((pair) => pair.swallowed).length;
  }

  /** Ends every connection by reset; further ones are reset, too, until `heal`. */
  reset(): void {
    this.#mode = "refusing";
    for (const { near, far } of this.#pairs) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
  }

  /** From now on every byte, of these connections and of new ones, is taken and goes nowhere. */
  swallow(): void {
    this.#mode = "swallowing";
    for (const pair of this.#pairs) pair.swallowed = true;
  }

  /** The same for the oldest connection that carries something; the others are not touched. */
  swallowOldest(): void {
    const oldest = [...this.#pairs].find(carries);
    if (oldest === undefined) throw new Error("there is no connection that carries anything");
    oldest.swallowed = true;
  }

  /** Bytes get in between that no TLS connection can read; new connections are not touched. */
  garble(): void {
    for (const { far } of this.#pairs) far.write(GARBLED);
  }

  /** New connections work again. */
  heal(): void {
    this.#mode = "open";
  }

  async close(): Promise<void> {
    this.reset();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(near: Socket): void {
    near.on("error", () => {});
    if (this.#mode === "refusing" || this.#targetPort === 0) {
      near.resetAndDestroy();
      return;
    }
    const far = connect({ host: this.#host, port: this.#targetPort, allowHalfOpen: true, noDelay: true });
    far.on("error", () => {});
    const pair: Pair = { near, far, swallowed: this.#mode === "swallowing" };
    this.#pairs.add(pair);
    far.once("connect", () => near.resume());
    this.#carry(pair, near, far);
    this.#carry(pair, far, near);
  }

  #carry(pair: Pair, from: Socket, to: Socket): void {
    // What was delayed is never overtaken, not even when the delay shrinks; timers of different length keep no order.
    const waiting: { readonly due: number; readonly act: () => void }[] = [];
    const actOnDue = (): void => {
      for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
        const left = next.due - performance.now();
        if (left > 0) {
          setTimeout(actOnDue, left);
          return;
        }
        waiting.shift();
        next.act();
      }
    };
    const after = (act: () => void): void => {
      if (waiting.length === 0 && this.delayMs === 0) {
        act();
        return;
      }
      waiting.push({ due: performance.now() + this.delayMs, act });
      if (waiting.length === 1) setTimeout(actOnDue, this.delayMs);
    };
    from.on("data", (chunk) =>
      after(() => {
        if (pair.swallowed || to.destroyed || to.write(chunk)) return;
        from.pause();
        to.once("drain", () => from.resume());
      }),
    );
    from.once("end", () =>
      after(() => {
        // The end that gave it up needs no answer; the other end still hears nothing.
        if (pair.swallowed) from.destroy();
        else to.end();
      }),
    );
    from.once("close", () => {
      if (to.closed) this.#pairs.delete(pair);
      if (!pair.swallowed || this.#mode === "refusing") to.destroySoon();
    });
  }
}

function carries({ near, far, swallowed }: Pair): boolean {
  return !swallowed && !near.destroyed && !far.destroyed;
}
