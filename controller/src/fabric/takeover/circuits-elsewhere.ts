import { pause } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type { CircuitReport, FabricReplicas } from "../replicas.ts";

/** Reports of one router that may wait until they are looked up. Those beyond are dropped: routers repeat what lasts. */
const MAX_WAITING = 10_000;
/** Reports that are looked up, and passed on, together. */
const AT_ONCE = 500;
/** Ids of circuits, those of OpenZiti too. One that the database refuses would spoil the lookup of all others. */
const CIRCUIT_ID = /^[!-~]{1,64}$/;
const MAX_OWNER_LENGTH = 256;
/** A router says only once that an end closed. A controller that cannot be reached is dialed again after 1 s. */
const RETRY_MS = 1_500;
const MAX_TRIES = 5;
const MAX_RETRIED = 10_000;
/** A circuit whose controller has been gone for so long, and that no other one has taken over, is over. */
const GIVEN_UP_MS = 150_000;

/** A report about a circuit that is not known here. */
export interface UnknownReport {
  readonly report: CircuitReport;
  /** Id of the controller that the router files the circuit under; undefined: this one, or the router does not say. */
  readonly owner: string | undefined;
  /** The router drops the circuit if it is over. */
  readonly isUnrouted: boolean;
  readonly tries?: number;
}

interface CircuitsElsewhereParts {
  readonly replicas: FabricReplicas;
  /** No controller has the circuit. */
  readonly onOver: (report: CircuitReport) => void;
  readonly log: Logger;
}

/**
 * Looks up whose the circuits are that routers report and this controller does not know, and passes the reports on. However many a router sends, one lookup runs
 * at a time, each router has its share of it, and a bounded number waits. Source: docs/protocol/replicas.md, "Reports about circuits of others".
 */
export class CircuitsElsewhere {
  readonly #parts: CircuitsElsewhereParts;
  readonly #waiting = new Map<string, UnknownReport[]>();
  readonly #closing = new AbortController();
  #isBusy = false;
  #retried = 0;

  constructor(parts: CircuitsElsewhereParts) {
    this.#parts = parts;
  }

  offer(reports: readonly UnknownReport[]): void {
    const { replicas, onOver } = this.#parts;
    if (!replicas.isShared) {
      for (const { report, isUnrouted } of reports) if (isUnrouted) onOver(report);
      return;
    }
    for (const unknown of reports) {
      const { circuitId, routerId } = unknown.report;
      if (!CIRCUIT_ID.test(circuitId) || (unknown.owner?.length ?? 0) > MAX_OWNER_LENGTH) continue;
      const waiting = this.#waiting.getOrInsertComputed(routerId, () => []);
      if (waiting.length < MAX_WAITING) waiting.push({ ...unknown, report: copied(unknown.report) });
    }
    void this.#work();
  }

  close(): void {
    this.#closing.abort();
    this.#waiting.clear();
  }

  async #work(): Promise<void> {
    if (this.#isBusy) return;
    this.#isBusy = true;
    while (this.#waiting.size > 0) await this.#settle(this.#next());
    this.#isBusy = false;
  }

  /** Of each router the same number. */
  #next(): UnknownReport[] {
    const share = Math.ceil(AT_ONCE / this.#waiting.size);
    const taken: UnknownReport[] = [];
    for (const [routerId, reports] of [...this.#waiting]) {
      if (taken.length >= AT_ONCE) break;
      taken.push(...reports.splice(0, share));
      // Those that were left out are first the next time.
      this.#waiting.delete(routerId);
      if (reports.length > 0) this.#waiting.set(routerId, reports);
    }
    return taken;
  }

  /** Never rejects. */
  async #settle(unknown: readonly UnknownReport[]): Promise<void> {
    const { replicas, onOver, log } = this.#parts;
    try {
      const owners = await replicas.ownersOf(unknown.map(({ report }) => report.circuitId));
      if (this.#closing.signal.aborted) return;
      const elsewhere = new Map<string, UnknownReport[]>();
      for (const one of unknown) {
        const { report, owner: filedUnder, isUnrouted } = one;
        const owner = owners.get(report.circuitId) ?? filedUnder;
        if (owners.has(report.circuitId) || (owner !== undefined && replicas.goneForMs(owner) === 0)) {
          elsewhere.getOrInsertComputed(owner ?? "", () => []).push(one);
        } else if (isUnrouted && (owner === undefined || replicas.goneForMs(owner) >= GIVEN_UP_MS)) onOver(report);
      }
      await Promise.all([...elsewhere].map(([owner, reports]) => this.#pass(owner, reports)));
    } catch (err) {
      log.debug({ err }, "whose a circuit is could not be looked up");
      this.#again(unknown);
    }
  }

  /** Never rejects. */
  async #pass(controllerId: string, unknown: readonly UnknownReport[]): Promise<void> {
    const { replicas, log } = this.#parts;
    try {
      await replicas.pass(
        controllerId,
        unknown.map(({ report }) => report),
      );
    } catch (err) {
      log.debug({ controllerId, err }, "reports about circuits of another controller could not be passed on");
      this.#again(unknown);
    }
  }

  /** What routers do not repeat is looked up again: it may have another owner then. */
  #again(unknown: readonly UnknownReport[]): void {
    const once = unknown.filter(({ report, tries = 1 }) => report.kind === "ended" && tries < MAX_TRIES);
    const retried = once.slice(0, MAX_RETRIED - this.#retried);
    if (retried.length === 0) return;
    this.#retried += retried.length;
    void pause(RETRY_MS, this.#closing.signal, { ref: false }).then(() => {
      this.#retried -= retried.length;
      if (this.#closing.signal.aborted) return;
      this.offer(retried.map(({ tries = 1, ...report }) => ({ ...report, tries: tries + 1 })));
    });
  }
}

/** A part of a text keeps the whole text in memory, and a router sends any text. */
function copied(report: CircuitReport): CircuitReport {
  return { ...report, circuitId: Buffer.from(report.circuitId).toString() };
}
