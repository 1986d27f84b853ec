import { createSocket, type Socket as DatagramSocket, type RemoteInfo } from "node:dgram";
import { once } from "node:events";
import { errorText } from "@sallyport/async";
import { boundedLog, type Logger, type SharedPlace, SharedPlaces, type Xgress } from "@sallyport/wire";
import { answerLine, initiate, type PlainCircuit, type PlainListening, parseRequest } from "../plain-client.ts";
import { DatagramPort } from "./datagram-port.ts";

export interface DatagramListenerOptions extends PlainListening {
  /** `transport_udp`: the first datagram asks for a service; `proxy_udp`: all go to one. */
  readonly binding: "transport_udp" | "proxy_udp" | "transport";
  /** The one service of a `proxy_udp`. */
  readonly service?: string | undefined;
  /** Empty: all interfaces. */
  readonly host: string;
  readonly port: number;
  /** 4 or 6; 0: as the host says. */
  readonly family: 0 | 4 | 6;
  readonly log: Logger;
  /** Clients at a time, half of them from one address; 10,000 when not given. */
  readonly maxSessions?: number;
  readonly times?: Partial<typeof times>;
  /** Milliseconds of a clock that never jumps; for tests. */
  readonly now?: () => number;
}

const times = {
  /** A session without traffic ends after this... */
  idleMs: 60_000,
  /** ...which is looked for this often. */
  scanMs: 10_000,
};

/** Datagrams of a client that wait for its circuit, and clients at a time, half of them from one address: senders may be forged. */
const MAX_WAITING = 10;
const MAX_SESSIONS = 10_000;
/** Bytes that may wait in the socket; datagrams beyond it are lost. */
const MAX_UNSENT = 4 * 1024 * 1024;

interface DatagramSession {
  readonly from: RemoteInfo;
  readonly place: SharedPlace;
  /** Datagrams from before the circuit. */
  waiting: Buffer[] | undefined;
  lastUse: number;
  xgress: Xgress | undefined;
  port: DatagramPort | undefined;
}

/**
 * Datagrams of clients that know nothing of the overlay: each sender is a session with a circuit of its own, which waits
 * for no other (docs/protocol/data-path.md, "Datagrams").
 */
export class DatagramListener {
  readonly #o: DatagramListenerOptions;
  readonly #log: Logger;
  readonly #socket: DatagramSocket;
  readonly #sessions = new Map<string, DatagramSession>();
  readonly #places: SharedPlaces;
  readonly #times: typeof times;
  readonly #now: () => number;
  readonly #scan: NodeJS.Timeout;
  #closed = false;

  private constructor(options: DatagramListenerOptions, socket: DatagramSocket) {
    this.#o = options;
    this.#log = boundedLog(options.log);
    this.#socket = socket;
    const places = options.maxSessions ?? MAX_SESSIONS;
    this.#places = new SharedPlaces({ places, perAddress: Math.ceil(places / 2) });
    this.#times = { ...times, ...options.times };
    this.#now = options.now ?? (() => performance.now());
    socket.on("message", (bytes, from) => this.#arrived(bytes, from));
    socket.on("error", (error) => this.#log.warn({ err: error, binding: options.binding }, "a UDP listener failed"));
    this.#scan = setInterval(() => this.#expire(), this.#times.scanMs);
    this.#scan.unref();
  }

  /** @throws Error as `dgram.Socket.bind` gives it, for example `EADDRINUSE` */
  static async listen(options: DatagramListenerOptions): Promise<DatagramListener> {
    const { host, port, family } = options;
    const isV6 = family === 6 || (family === 0 && (host.includes(":") || host === ""));
    const socket = createSocket({ type: isV6 ? "udp6" : "udp4" });
    const listening = once(socket, "listening");
    socket.bind({ port, ...(host === "" ? {} : { address: host }) });
    try {
      await listening;
    } catch (error) {
      socket.close();
      throw error;
    }
    return new DatagramListener(options, socket);
  }

  get port(): number {
    return this.#socket.address().port;
  }

  get sessions(): number {
    return this.#sessions.size;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearInterval(this.#scan);
    for (const [key, session] of this.#sessions) this.#end(key, session, "the listener is closed");
    this.#socket.close();
  }

  #arrived(bytes: Buffer, from: RemoteInfo): void {
    // No answer can be sent to port 0.
    if (from.port === 0) return;
    const key = `${from.address}|${from.port}`;
    const session = this.#sessions.get(key);
    if (session === undefined) {
      this.#begin(key, bytes, from);
      return;
    }
    session.lastUse = this.#now();
    const { xgress, port, waiting } = session;
    if (xgress !== undefined && port !== undefined) {
      if (!port.isFull) port.isFull = !xgress.write(bytes, 0, bytes.length);
    } else if (waiting !== undefined && waiting.length < MAX_WAITING) {
      waiting.push(bytes);
    }
  }

  #begin(key: string, first: Buffer, from: RemoteInfo): void {
    const { binding, service } = this.#o;
    const log = this.#log;
    let wanted = service;
    try {
      wanted ??= parseRequest(first.toString("utf8")).service;
    } catch {
      // Not answered: the sender may be forged, and two listeners would report their mistakes to each other without end.
      log.debug({ binding, from: `${from.address}:${from.port}` }, "a datagram that is no request was dropped");
      return;
    }
    const waiting = service === undefined ? [] : [first];
    // No session gives way to another: either sender may be forged.
    const place = this.#places.take(from.address, () => {});
    if (place === undefined) {
      log.debug({ binding, sessions: this.#sessions.size }, "no more clients are taken at the moment");
      return;
    }
    place.settle();
    const session: DatagramSession = { from, place, waiting, lastUse: this.#now(), xgress: undefined, port: undefined };
    this.#sessions.set(key, session);
    this.#connect(key, session, wanted).catch((error: unknown) => {
      const reason = errorText(error);
      log.info({ binding, service, from: `${from.address}:${from.port}`, reason }, "a client got no circuit");
      if (service === undefined) this.#send(session, Buffer.from(answerLine({ error: reason })));
      this.#end(key, session, reason);
    });
  }

  async #connect(key: string, session: DatagramSession, wanted: string): Promise<void> {
    const { service, createCircuit } = this.#o;
    const circuit = await createCircuit(wanted);
    if (this.#sessions.get(key) !== session) {
      this.#o.release(circuit);
      return;
    }
    if (service === undefined) this.#send(session, Buffer.from(answerLine({ circuitId: circuit.circuitId })));
    this.#join(key, session, circuit);
  }

  #join(key: string, session: DatagramSession, circuit: PlainCircuit): void {
    const port = new DatagramPort({
      hopType: `xgress/${this.#o.binding}`,
      send: (buffer, start, end) => {
        session.lastUse = this.#now();
        this.#send(session, Buffer.from(buffer.subarray(start, end)));
      },
      onEnd: (reason) => this.#end(key, session, reason),
    });
    const xgress = initiate(this.#o, circuit, port);
    session.port = port;
    session.xgress = xgress;
    xgress.start();
    for (const bytes of session.waiting ?? []) xgress.write(bytes, 0, bytes.length);
    session.waiting = undefined;
  }

  #send(session: DatagramSession, bytes: Buffer): void {
    if (this.#closed || this.#socket.getSendQueueSize() > MAX_UNSENT) return;
    this.#socket.send(bytes, session.from.port, session.from.address);
  }

  #expire(): void {
    const now = this.#now();
    for (const [key, session] of this.#sessions) {
      if (now - session.lastUse >= this.#times.idleMs) this.#end(key, session, "the client was silent for too long");
    }
  }

  #end(key: string, session: DatagramSession, reason: string): void {
    if (this.#sessions.get(key) !== session) return;
    this.#sessions.delete(key);
    session.place.release();
    session.waiting = undefined;
    session.xgress?.close(reason);
  }
}
