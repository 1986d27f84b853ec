import type { Socket } from "node:net";
import { errorText } from "@sallyport/async";
import { boundedLog, type Logger, SharedPlaces } from "@sallyport/wire";
import {
  answerLine,
  initiate,
  type PlainCircuit,
  type PlainListening,
  parseRequest,
  readLine,
} from "../plain-client.ts";
import { SocketPort } from "./socket-port.ts";

export interface StreamListenerOptions extends PlainListening {
  /** `transport`: every client asks for its service; `proxy`: all go to one. */
  readonly binding: "transport" | "proxy";
  /** The one service of a `proxy`. */
  readonly service?: string | undefined;
  readonly mtu: number;
  readonly log: Logger;
  /** For the request line of a `transport`. */
  readonly requestTimeoutMs?: number;
  /** Clients whose request line is awaited at a time, half of them from one address; 1,000 when not given. */
  readonly maxWaiting?: number;
}

const REQUEST_TIMEOUT_MS = 30_000;
const MAX_WAITING = 1_000;

/**
 * Connections of clients that know nothing of the overlay: each becomes a circuit, and its bytes flow as soon as that is
 * made (docs/protocol/data-path.md, "Plain listeners").
 */
export class StreamListener {
  readonly #o: StreamListenerOptions;
  readonly #log: Logger;
  readonly #sockets = new Set<Socket>();
  readonly #waiting: SharedPlaces;
  #closed = false;

  constructor(options: StreamListenerOptions) {
    this.#o = options;
    this.#log = boundedLog(options.log);
    const { maxWaiting = MAX_WAITING } = options;
    this.#waiting = new SharedPlaces({ places: maxWaiting, perAddress: Math.ceil(maxWaiting / 2) });
  }

  get connections(): number {
    return this.#sockets.size;
  }

  /** @param socket paused, with `allowHalfOpen`; nothing was read from it */
  accept(socket: Socket): void {
    if (this.#closed) {
      socket.destroy();
      return;
    }
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    // A client may leave at any time; callers that wait for something of it see that by `destroyed`.
    socket.on("error", () => {});
    this.#serve(socket).catch((error: unknown) => {
      const reason = errorText(error);
      const from = `${socket.remoteAddress}:${socket.remotePort}`;
      this.#log.info({ binding: this.#o.binding, service: this.#o.service, from, reason }, "a client got no circuit");
      if (this.#o.binding === "transport" && socket.writable) socket.end(answerLine({ error: reason }));
      else socket.destroy();
    });
  }

  close(): void {
    this.#closed = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  async #serve(socket: Socket): Promise<void> {
    const { binding, service, createCircuit, requestTimeoutMs = REQUEST_TIMEOUT_MS } = this.#o;
    if (service !== undefined) {
      this.#join(socket, await createCircuit(service));
      return;
    }
    const { line, rest } = await this.#request(socket, requestTimeoutMs);
    const request = parseRequest(line);
    const circuit = await createCircuit(request.service);
    this.#log.debug({ binding, client: request.clientId, circuitId: circuit.circuitId }, "a client has its circuit");
    if (socket.writable) socket.write(answerLine({ circuitId: circuit.circuitId }));
    this.#join(socket, circuit, rest);
  }

  /** The request line; when too many are awaited, the connection that has sent none for longest is ended. */
  async #request(socket: Socket, timeoutMs: number): Promise<{ line: string; rest: Buffer }> {
    const place = this.#waiting.take(socket.remoteAddress ?? "", () => socket.destroy());
    try {
      return await readLine(socket, timeoutMs);
    } finally {
      place?.release();
    }
  }

  #join(socket: Socket, circuit: PlainCircuit, early?: Buffer): void {
    if (socket.destroyed) {
      this.#o.release(circuit);
      return;
    }
    const port = new SocketPort({ hopType: `xgress/${this.#o.binding}`, mtu: this.#o.mtu });
    const xgress = initiate(this.#o, circuit, port);
    xgress.start();
    port.attachExisting(socket, xgress, early);
  }
}
