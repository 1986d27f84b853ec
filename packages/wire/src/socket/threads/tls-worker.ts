/**
 * The program of a thread that does the TLS of its share of a port's connections. Started by `TlsThread`; what is said
 * between them is in `messages.ts`.
 */
import type { TLSSocket } from "node:tls";
import { type MessagePort, parentPort, workerData } from "node:worker_threads";
import { peerOf } from "../../channel/peer.ts";
import { identityFromPem } from "../../identity/identity.ts";
import type { Logger } from "../../log.ts";
import { TlsPort } from "../tls-port.ts";
import { installUserBuffer } from "../user-buffer.ts";
import { type Batch, Exchange, type Loan } from "./exchange.ts";
import {
  type Instruction,
  Op,
  TELL_AT,
  type ThreadReport,
  type ThreadSettings,
  type ThreadUser,
  WINDOW,
} from "./messages.ts";

/** Smaller runs are copied: one that waits for a peer would hold on to a whole slab. */
const COPY_BELOW = 8 * 1024;
/** One for every connection of this thread: its bytes are passed on before the next is read. */
const READ_BUFFER = Buffer.allocUnsafeSlow(64 * 1024);

const main = parentPort as MessagePort;
const settings = workerData as ThreadSettings;
const connections = new Map<number, Connection>();
/** Those that are not read because the main thread has much to work off. */
const stalled = new Set<Connection>();
let opened = 0;

const exchange = new Exchange<Instruction, ThreadReport>((batch, transfer) => main.postMessage(batch, transfer), {
  data: (connection, bytes, loan) => connections.get(connection)?.write(bytes, loan),
  op: (op, connection, count) => connections.get(connection)?.told(op, count),
  note: (instruction) => obey(instruction),
});

/** One connection, which stays with this thread as long as it lives. */
class Connection {
  readonly #id = ++opened;
  readonly #socket: TLSSocket;
  /** Bytes that the main thread has and has not read yet. */
  #unread = 0;
  /** Bytes that have left and of which the main thread does not know. */
  #left = 0;
  #error: Error | undefined;

  constructor(socket: TLSSocket, user: string) {
    this.#socket = socket;
    connections.set(this.#id, this);
    // When to end is the main thread's business: what it has written may be on its way.
    socket.allowHalfOpen = true;
    const { remoteAddress, remotePort, localAddress, localPort } = socket;
    const certificates = peerOf(socket).certificates.map(({ raw }) => raw);
    const addresses = { remoteAddress, remotePort, localAddress, localPort };
    exchange.note({ kind: "opened", connection: this.#id, user, certificates, ...addresses });
    socket.on("error", (error) => {
      this.#error ??= error;
    });
    socket.once("end", () => exchange.say(Op.end, this.#id));
    socket.once("close", () => this.#closed());
    const early = installUserBuffer(socket, READ_BUFFER, (length) => {
      this.#read(READ_BUFFER.subarray(0, length));
      return true;
    });
    if (early === undefined) socket.on("data", (bytes: Buffer) => this.#read(bytes));
    else for (const bytes of early) this.#read(bytes);
    this.resume();
  }

  write(bytes: Buffer, loan: Loan): void {
    if (this.#socket.destroyed || this.#socket.writableEnded) return;
    const isKept = bytes.length >= COPY_BELOW && loan.retain();
    this.#socket.write(isKept ? bytes : Buffer.from(bytes), () => {
      if (isKept) loan.release();
      this.#left += bytes.length;
      if (this.#left < TELL_AT) return;
      exchange.say(Op.taken, this.#id, this.#left);
      this.#left = 0;
    });
  }

  told(op: Op, count: number): void {
    if (op === Op.taken) {
      this.#unread -= count;
      this.resume();
    } else if (op === Op.end) {
      this.#socket.end(() => exchange.say(Op.finished, this.#id));
    } else if (op === Op.destroy) {
      this.#socket.destroy();
    }
  }

  resume(): void {
    if (this.#mayRead()) this.#socket.resume();
  }

  #read(bytes: Buffer): void {
    exchange.data(this.#id, bytes);
    this.#unread += bytes.length;
    if (!this.#mayRead()) this.#socket.pause();
  }

  #mayRead(): boolean {
    if (this.#unread >= WINDOW) return false;
    if (exchange.isFull) stalled.add(this);
    return !exchange.isFull;
  }

  #closed(): void {
    connections.delete(this.#id);
    stalled.delete(this);
    exchange.note({ kind: "closed", connection: this.#id, error: this.#error });
  }
}

function obey(instruction: Instruction): void {
  switch (instruction.kind) {
    case "identity":
      port.setIdentity(identityFromPem(instruction.identity));
      break;
    case "users":
      serve(instruction.users);
      break;
    case "close":
      void port.close().then(() => {
        exchange.flush();
        main.close();
      });
  }
}

let registered: (() => void)[] = [];

function serve(users: readonly ThreadUser[]): void {
  for (const remove of registered) remove();
  registered = users.map((user) =>
    port.register({ ...user, onSocket: (socket) => void new Connection(socket, user.name) }),
  );
}

/** Logs where the main thread does. */
const logAt =
  (level: keyof Logger) =>
  (fields: object, msg: string): void =>
    exchange.note({ kind: "log", level, fields, msg });
const log = { debug: logAt("debug"), info: logAt("info"), warn: logAt("warn"), error: logAt("error") };

const { identity, users, ...address } = settings;
const port = await TlsPort.listen({ ...address, identity: identityFromPem(identity), reusePort: true, log });
serve(users);
exchange.note({ kind: "listening", port: port.port });
main.on("message", (batch: Batch<Instruction>) => {
  exchange.receive(batch);
  if (exchange.isFull || stalled.size === 0) return;
  const waiting = [...stalled];
  stalled.clear();
  for (const connection of waiting) connection.resume();
});
