import { EventEmitter } from "node:events";
import type {
  HostedTerminator,
  Overlay,
  OverlayConnection,
  OverlayDial,
  OverlayHandler,
  OverlayHosting,
  OverlayIdentity,
  OverlayService,
} from "../overlay.ts";

/** An overlay within one process: what is dialled reaches what is hosted, message by message. For tests. */
export class MemoryOverlay implements Overlay {
  identity: OverlayIdentity = { id: "me", name: "laptop", appData: {} };
  /** What was asked of it, in its order. */
  readonly dials: OverlayDial[] = [];
  readonly hosted: MemoryTerminator[] = [];
  readonly #services = new Map<string, OverlayService>();
  readonly #changes = new EventEmitter();

  /** Sets or removes services, and tells. */
  change(services: Readonly<Record<string, Partial<OverlayService> | undefined>>): void {
    for (const [name, service] of Object.entries(services)) {
      if (service === undefined) this.#services.delete(name);
      else this.#services.set(name, { ...blank, id: name, name, ...service });
    }
    this.#changes.emit("change");
  }

  onServices(listener: (services: ReadonlyMap<string, OverlayService>) => void): () => void {
    const tell = () => listener(new Map(this.#services));
    this.#changes.on("change", tell);
    tell();
    return () => this.#changes.off("change", tell);
  }

  async dial(service: OverlayService, o: OverlayDial): Promise<OverlayConnection> {
    this.dials.push(o);
    const terminator = this.hosted.find((each) => each.service.name === service.name && !each.isClosed);
    if (terminator === undefined) throw new Error(`service ${service.id} has no terminators`);
    const appData = Buffer.from(JSON.stringify(o.appData));
    return await new Promise((resolve, reject) => {
      const [mine, theirs] = MemoryConnection.pair();
      void terminator.o.onDial({
        appData,
        callerId: this.identity.name,
        accept: async ({ kind }) => {
          if (kind !== o.kind) throw new Error(`accepted ${kind} for ${o.kind}`);
          resolve(mine);
          return theirs;
        },
        reject: (reason) => reject(new Error(reason)),
      });
    });
  }

  async host(service: OverlayService, o: OverlayHosting): Promise<HostedTerminator> {
    const terminator = new MemoryTerminator(service, o);
    this.hosted.push(terminator);
    return terminator;
  }

  async close(): Promise<void> {
    for (const terminator of this.hosted) await terminator.close();
  }
}

const blank = {
  canDial: false,
  canBind: false,
  isEncrypted: false,
  configs: new Map<string, unknown>(),
};

export class MemoryTerminator implements HostedTerminator {
  readonly service: OverlayService;
  readonly o: OverlayHosting;
  readonly updates: object[] = [];
  readonly events: boolean[] = [];
  isClosed = false;

  constructor(service: OverlayService, o: OverlayHosting) {
    this.service = service;
    this.o = o;
  }

  async update(o: object): Promise<void> {
    this.updates.push(o);
  }

  healthEvent(passed: boolean): void {
    this.events.push(passed);
  }

  async close(): Promise<void> {
    this.isClosed = true;
  }
}

/** Messages that wait for their receiver, at most, before the sender is told to wait. */
const window = 8;

/** One end of a circuit in memory. */
class MemoryConnection implements OverlayConnection {
  readonly circuitId: string;
  readonly maxMessage = 1_000;
  #other: MemoryConnection | undefined;
  #handler: OverlayHandler | undefined;
  #queue: (Buffer | "end" | "closed")[] = [];
  #isDelivering = false;
  #isClosed = false;
  #hasEnded = false;
  #isOtherWaiting = false;

  static #count = 0;

  static pair(): [MemoryConnection, MemoryConnection] {
    const id = `circuit ${++MemoryConnection.#count}`;
    const [a, b] = [new MemoryConnection(id), new MemoryConnection(id)];
    a.#other = b;
    b.#other = a;
    return [a, b];
  }

  constructor(circuitId: string) {
    this.circuitId = circuitId;
  }

  start(handler: OverlayHandler): void {
    this.#handler = handler;
    setImmediate(() => this.#deliver());
  }

  write(buffer: Buffer, start: number, end: number): boolean {
    if (this.#isClosed || this.#hasEnded || this.#other === undefined) return true;
    return this.#other.#take(Buffer.from(buffer.subarray(start, end)));
  }

  endWriting(): void {
    if (this.#isClosed || this.#hasEnded) return;
    this.#hasEnded = true;
    const other = this.#other;
    if (other !== undefined) other.#take("end");
  }

  resume(): void {
    setImmediate(() => this.#deliver());
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const other = this.#other;
    if (other !== undefined) other.#take("closed");
  }

  #take(entry: Buffer | "end" | "closed"): boolean {
    this.#queue.push(entry);
    setImmediate(() => this.#deliver());
    this.#isOtherWaiting = this.#queue.length > window;
    return !this.#isOtherWaiting;
  }

  #deliver(): void {
    const handler = this.#handler;
    if (handler === undefined || this.#isDelivering) return;
    this.#isDelivering = true;
    while (this.#queue.length > 0 && !this.#isClosed) {
      const entry = this.#queue[0];
      if (entry instanceof Buffer) {
        if (!handler.data(entry, 0, entry.length)) break;
      } else if (entry === "end") handler.endOfData();
      else {
        this.#isClosed = true;
        handler.closed();
      }
      this.#queue.shift();
    }
    this.#isDelivering = false;
    if (!this.#isOtherWaiting || this.#queue.length > 0) return;
    this.#isOtherWaiting = false;
    const other = this.#other;
    if (other !== undefined) other.#handler?.writable();
  }
}
