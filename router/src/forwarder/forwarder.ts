import { Listeners } from "@sallyport/async";
import {
  AckScheduler,
  answerTraceRoute,
  type ControlReply,
  FaultSubject,
  FramePool,
  type FrameView,
  type Logger,
  ScanTimer,
  type Underlay,
  type XgressFabric,
  XgressFlag,
  XgressType,
  xgressCounters,
} from "@sallyport/wire";
import { Circuit, type Destination, type Forward, type IdleCircuits, idleCircuits } from "./circuit.ts";
import type { EgressBinding } from "./egress.ts";
import { type Fault, FaultReports } from "./fault-reports.ts";
import { LinkDestination, type LinkPort } from "./link-destination.ts";
import { areQuiet, circuitDetail, EndPath, isLocalEnd, type LocalEnd, type PathTables } from "./local-end.ts";
import type { ForwarderOptions } from "./options.ts";
import { type Dialers, RouteProcessor, type RouteRequest, type RouteResult } from "./route-processor.ts";
import { copyWithoutHeartbeat, RoutingHeaders } from "./routing-headers.ts";
import { TransitBudget } from "./transit-queue.ts";

/**
 * The switchboard of the router: which circuit's frames go where. Links and local xgress are its destinations; it owns
 * the circuit table, executes Route and Unroute, and reports what it cannot forward. Nothing is allocated per payload
 * that finds room (docs/protocol/data-path.md).
 */
export class Forwarder implements XgressFabric {
  readonly options: ForwarderOptions;
  readonly pool: FramePool;
  readonly budget: TransitBudget;
  /** Sums over all local ends. */
  readonly counters = xgressCounters();
  /** Timers that all local ends share. */
  readonly acks = new AckScheduler();
  readonly scans = new ScanTimer();
  readonly #log: Logger;
  readonly #routerId: string;
  readonly #circuits = new Map<string, Circuit>();
  readonly #destinations = new Map<string, Destination>();
  /** Local ends of a circuit, by circuit id. */
  readonly #ends = new Map<string, Set<LocalEnd>>();
  readonly #bindings = new Map<string, EgressBinding>();
  readonly #headers = new RoutingHeaders();
  readonly #faults = new FaultReports((fault) => this.#faultListeners.emit(fault));
  readonly #faultListeners = new Listeners<[fault: Fault]>();
  readonly #idleListeners = new Listeners<[idle: IdleCircuits]>();
  readonly #removalListeners = new Listeners<[circuit: Circuit]>();
  /** Circuits that were unrouted with now = false: their end is looked for every close check. */
  readonly #closing = new Map<string, number>();
  readonly #routes: RouteProcessor;
  readonly #tables: PathTables;
  readonly #timers: NodeJS.Timeout[] = [];
  #malformed = 0;

  constructor(o: { routerId: string; log: Logger; options: ForwarderOptions }) {
    this.options = o.options;
    const bytes = this.options.circuitMemoryBytes;
    this.pool = new FramePool({ budget: bytes, maxFree: bytes });
    this.budget = new TransitBudget(this.options.transitBufferBytes);
    this.#log = o.log;
    this.#routerId = o.routerId;
    this.#tables = {
      circuit: (id) => this.#circuits.get(id),
      resolve: (forward) => this.#resolve(forward),
      fault: (id) => this.#faults.add(id, this.#circuits.get(id)?.controllerId),
      ackFailed: () => {
        this.counters.acksFailed++;
      },
      now: () => performance.now(),
    };
    this.#routes = new RouteProcessor({
      options: this.options,
      log: o.log,
      binding: (name) => this.#bindings.get(name),
      isRegistered: (address) => this.#destinations.has(address),
      hasCircuit: (id) => this.#circuits.has(id),
      hasLink: (id) => this.#destinations.get(id)?.kind === "link",
      linkUnknown: (id) => this.#faultListeners.emit({ subject: FaultSubject.LinkFault, ids: [id], iteration: 0 }),
      apply: (route, controllerId) => this.#apply(route, controllerId),
      discard: (address) => this.#discard(address),
    });
  }

  // Links -------------------------------------------------------------------------------------------------------------

  /** Makes a link a destination and takes its payload, acknowledgement and control frames. Replaces one of the same id. */
  addLink(port: LinkPort): void {
    this.#gone(port.id);
    const link = new LinkDestination(port, this);
    this.#destinations.set(port.id, link);
    port.channel.onFrame = (frame, underlay) => this.#fromLink(link, frame, underlay);
    this.#wakeEnds();
  }

  /** Forgets a link. Without `channel` whatever has that id; with it only if it is still that channel's. */
  removeLink(id: string, channel?: LinkPort["channel"]): void {
    const known = this.#destinations.get(id);
    if (!(known instanceof LinkDestination)) return;
    if (channel !== undefined && known.port.channel !== channel) return;
    this.#gone(id);
  }

  link(id: string): LinkDestination | undefined {
    const known = this.#destinations.get(id);
    return known instanceof LinkDestination ? known : undefined;
  }

  // Routes ------------------------------------------------------------------------------------------------------------

  /** Adds a way out of the fabric under the name terminators call it by. */
  registerEgress(name: string, binding: EgressBinding): () => void {
    this.#bindings.set(name, binding);
    return () => {
      if (this.#bindings.get(name) === binding) this.#bindings.delete(name);
    };
  }

  get dialers(): Dialers {
    return this.#routes;
  }

  hasEgress(name: string): boolean {
    return this.#bindings.has(name);
  }

  /** Executes a Route of a controller; never rejects. Dials run side by side within the configured bounds. */
  route(route: RouteRequest, controllerId: string): Promise<RouteResult> {
    return this.#routes.route(route, controllerId);
  }

  /**
   * Ends a circuit here. `now`: at once. Otherwise as soon as no payload came from the fabric for the close check
   * interval, or at its first look when the circuit has no local end. Unknown circuits are ignored.
   */
  unroute(circuitId: string, now: boolean): void {
    this.#routes.cancel(circuitId);
    if (now) this.#remove(circuitId);
    else if (this.#circuits.has(circuitId)) this.#closing.set(circuitId, performance.now());
  }

  // Local ends --------------------------------------------------------------------------------------------------------

  /** Registers an xgress at its address and returns its way into the fabric. */
  register(end: LocalEnd): EndPath {
    if (this.#destinations.has(end.address)) {
      throw new Error(`an xgress with the address ${end.address} exists already; addresses are used once`);
    }
    this.#destinations.set(end.address, end);
    const ends = this.#ends.get(end.circuitId) ?? new Set();
    ends.add(end);
    this.#ends.set(end.circuitId, ends);
    return new EndPath(this.#tables, end, (report) => this.#endClosed(end, report));
  }

  /** Ends a circuit that was built for a dial whose client has left: the other end is told along the way, and its owner. */
  giveUp({ circuitId, address }: Pick<LocalEnd, "circuitId" | "address">): void {
    const end = { circuitId, address, side: "initiator" } as const;
    new EndPath(this.#tables, end, () => this.#reportEnd(end)).end(0);
  }

  circuitIds(): string[] {
    return [...this.#circuits.keys()];
  }

  circuits(): Iterable<Circuit> {
    return this.#circuits.values();
  }

  /** Links and local ends, by link id or address. */
  destinations(): ReadonlyMap<string, Destination> {
    return this.#destinations;
  }

  /** Local ends of all circuits. */
  *ends(): Iterable<LocalEnd> {
    for (const ends of this.#ends.values()) yield* ends;
  }

  /** Details of a circuit for the controller's inspection; `undefined` when it is not known here. */
  inspectCircuit(circuitId: string): Record<string, unknown> | undefined {
    const circuit = this.#circuits.get(circuitId);
    return circuit && circuitDetail(circuit, this.#ends.get(circuitId) ?? []);
  }

  // Reports -----------------------------------------------------------------------------------------------------------

  onFault(listener: (fault: Fault) => void): () => void {
    return this.#faultListeners.add(listener);
  }

  onIdle(listener: (idle: IdleCircuits) => void): () => void {
    return this.#idleListeners.add(listener);
  }

  /** Calls `listener` with every circuit that leaves the table. */
  onRemoved(listener: (circuit: Circuit) => void): void {
    this.#removalListeners.add(listener);
  }

  /** Starts the periodic reports and close checks. */
  startScans(): void {
    if (this.#timers.length > 0) return;
    this.#faults.start(this.options.faultTxIntervalMs);
    this.#every(this.options.idleTxIntervalMs, () => this.scanIdle());
    this.#every(this.options.xgressCloseCheckIntervalMs, () => this.scanClosing());
  }

  /** One look for idle circuits; called by the timer. */
  scanIdle(now = performance.now()): void {
    for (const idle of idleCircuits(this.#circuits.values(), this.options.idleCircuitTimeoutMs, now)) {
      this.#idleListeners.emit(idle);
    }
  }

  /** One look at the circuits that were unrouted with now = false; called by the timer. */
  scanClosing(now = performance.now()): void {
    const quietMs = this.options.xgressCloseCheckIntervalMs;
    for (const [circuitId, since] of this.#closing) {
      if (areQuiet(this.#ends.get(circuitId) ?? [], quietMs, since, now)) this.#remove(circuitId);
    }
  }

  /** Reports the collected forwarding faults now instead of at the next interval. */
  flushFaults(): void {
    this.#faults.flush();
  }

  /** Stops the timers, cancels running dials and closes every local end. */
  close(): void {
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
    this.#faults.stop();
    this.#routes.close();
    for (const id of [...this.#circuits.keys(), ...this.#ends.keys()]) this.#remove(id);
    this.budget.close();
    this.acks.close();
  }

  // Hot path ----------------------------------------------------------------------------------------------------------

  #fromLink(link: LinkDestination, frame: FrameView, underlay: Underlay): boolean {
    const type = frame.contentType;
    const linkId = link.port.id;
    if (type < XgressType.Payload || type > XgressType.Control) return false;
    if (type === XgressType.Control) {
      this.#controlFromLink(linkId, frame);
      return true;
    }
    const headers = this.#headers;
    if (!headers.read(frame)) {
      this.#reportMalformed(linkId, type);
      return true;
    }
    const id = frame.buffer.toString("latin1", headers.idStart, headers.idEnd);
    const flags = headers.flags;
    const circuit = this.#circuits.get(id);
    const forward = circuit?.from(linkId);
    const destination = forward === undefined ? undefined : this.#destination(forward);
    if (circuit === undefined || forward === undefined || destination === undefined) {
      if (type === XgressType.Payload && circuit?.ended !== true) this.#faults.add(id, circuit?.controllerId);
      return true;
    }
    if (type === XgressType.Payload) {
      const size = frame.end - frame.bodyStart;
      link.counters.payloadsIn++;
      link.counters.payloadBytesIn += size;
      if ((flags & XgressFlag.Retransmit) === 0) {
        circuit.lastActivity = performance.now();
        forward.payloads++;
        forward.bytes += size;
      }
    } else circuit.lastActivity = performance.now();
    if (frame.carriesHeartbeat && destination.kind !== "xgress")
      this.#forwardStripped(frame, forward, destination, flags, underlay);
    else if (type === XgressType.Payload) destination.payload(frame, forward, flags, underlay);
    else destination.ack(frame, forward);
    return true;
  }

  #forwardStripped(frame: FrameView, forward: Forward, destination: Destination, flags: number, from: Underlay): void {
    const stripped = this.pool.take(frame.end - frame.start).copyOf(frame);
    stripped.end = copyWithoutHeartbeat(frame, stripped.buffer);
    stripped.headersEnd = stripped.headersStart + stripped.buffer.readInt32LE(12);
    stripped.bodyStart = stripped.headersEnd;
    if (frame.contentType === XgressType.Payload) destination.payload(stripped, forward, flags, from);
    else destination.ack(stripped, forward);
    this.pool.give(stripped);
  }

  #controlFromLink(linkId: string, frame: FrameView): void {
    if (frame.end - frame.bodyStart < 2) return;
    const id = frame.buffer.toString("latin1", frame.bodyStart + 1, frame.end);
    const circuit = this.#circuits.get(id);
    const forward = circuit?.from(linkId);
    if (circuit === undefined || forward === undefined) return;
    circuit.lastActivity = performance.now();
    const destination = this.#destination(forward);
    const verdict = answerTraceRoute(frame, this.#routerId, destination === undefined);
    this.#passControl(verdict, forward, destination, linkId);
  }

  /** Sends a control message on, or its answer back to where it came from. */
  #passControl(verdict: ControlReply, forward: Forward, destination: Destination | undefined, source: string): void {
    if (verdict.back) this.#destinations.get(source)?.control(verdict.frame, forward);
    else destination?.control(verdict.frame, forward);
  }

  #destination(forward: Forward): Destination | undefined {
    const known = forward.destination;
    return known !== undefined && !known.gone ? known : this.#resolve(forward);
  }

  #resolve(forward: Forward): Destination | undefined {
    forward.destination = this.#destinations.get(forward.target);
    return forward.destination;
  }

  // Tables ------------------------------------------------------------------------------------------------------------

  #apply(route: RouteRequest, controllerId: string): void {
    let circuit = this.#circuits.get(route.circuitId);
    if (circuit === undefined) {
      circuit = new Circuit(route.circuitId, controllerId, performance.now(), route.tags);
      this.#circuits.set(circuit.id, circuit);
    }
    circuit.controllerId = controllerId;
    circuit.lastActivity = performance.now();
    this.#closing.delete(route.circuitId);
    for (const { srcAddress, dstAddress, dstType } of route.forwards)
      circuit.route(srcAddress, dstAddress).leadsTo = dstType;
    for (const end of this.#ends.get(circuit.id) ?? []) end.rerouted();
  }

  #remove(circuitId: string): void {
    this.#closing.delete(circuitId);
    const circuit = this.#circuits.get(circuitId);
    this.#circuits.delete(circuitId);
    if (circuit !== undefined) this.#removalListeners.emit(circuit);
    const ends = this.#ends.get(circuitId);
    this.#ends.delete(circuitId);
    for (const end of ends ?? []) {
      this.#gone(end.address);
      end.unrouted();
    }
    // Behind the last acknowledgements of the ends.
    for (const forward of circuit?.forwards ?? []) forward.letGo();
  }

  /** Takes back an end that was dialed for a route which then failed. */
  #discard(address: string): void {
    const end = this.#destinations.get(address);
    if (end === undefined || !isLocalEnd(end)) return;
    this.#endClosed(end, false);
    end.unrouted();
  }

  #endClosed(end: LocalEnd, report: boolean): void {
    if (this.#destinations.get(end.address) === end) this.#gone(end.address);
    const ends = this.#ends.get(end.circuitId);
    ends?.delete(end);
    if (ends?.size === 0) this.#ends.delete(end.circuitId);
    if (report) this.#reportEnd(end);
  }

  #reportEnd({ circuitId, side }: Pick<LocalEnd, "circuitId" | "side">): void {
    const circuit = this.#circuits.get(circuitId);
    if (circuit === undefined) return;
    circuit.ended = true;
    const subject = side === "initiator" ? FaultSubject.IngressFault : FaultSubject.EgressFault;
    this.#faultListeners.emit({ subject, ids: [circuitId], controllerId: circuit.controllerId });
  }

  #gone(address: string): void {
    const known = this.#destinations.get(address);
    if (known === undefined) return;
    known.gone = true;
    this.#destinations.delete(address);
  }

  #wakeEnds(): void {
    for (const ends of this.#ends.values()) for (const end of ends) end.rerouted();
  }

  #every(intervalMs: number, look: () => void): void {
    if (intervalMs <= 0) return;
    const timer = setInterval(look, intervalMs);
    timer.unref();
    this.#timers.push(timer);
  }

  #reportMalformed(linkId: string, contentType: number): void {
    if (this.#malformed++ === 0) {
      this.#log.warn({ linkId, contentType }, "frame without a circuit id on a link; it and all like it are dropped");
    }
  }
}
