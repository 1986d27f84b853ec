import { FaultSubject } from "@sallyport/wire";

/** What the controllers are told of a circuit or link that failed. */
export interface Fault {
  readonly subject: FaultSubject;
  /** Circuit ids (Forward: several allowed), or one link id. */
  readonly ids: readonly string[];
  readonly iteration?: number;
  /** Absent: every connected controller is told. */
  readonly controllerId?: string;
}

/** More circuits than this are not remembered between two reports; the rest fault again with their next payload. */
const MAX_REMEMBERED = 10_000;

/**
 * Collects the circuits that could not be forwarded and reports them together once per interval: one report per owning
 * controller, and one for those whose owner is not known (docs/protocol/data-path.md, "Faults").
 */
export class FaultReports {
  readonly #report: (fault: Fault) => void;
  readonly #byOwner = new Map<string, Set<string>>();
  readonly #unknown = new Set<string>();
  #count = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(report: (fault: Fault) => void) {
    this.#report = report;
  }

  /** @param intervalMs 0: nothing is reported */
  start(intervalMs: number): void {
    if (intervalMs <= 0) return;
    this.#timer = setInterval(() => this.flush(), intervalMs);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  add(circuitId: string, controllerId: string | undefined): void {
    if (this.#count >= MAX_REMEMBERED) return;
    let ids = this.#unknown;
    if (controllerId !== undefined) {
      ids = this.#byOwner.get(controllerId) ?? new Set();
      this.#byOwner.set(controllerId, ids);
    }
    if (ids.has(circuitId)) return;
    ids.add(circuitId);
    this.#count++;
  }

  flush(): void {
    for (const [controllerId, ids] of this.#byOwner) {
      this.#report({ subject: FaultSubject.ForwardFault, ids: [...ids], controllerId });
    }
    if (this.#unknown.size > 0)
      this.#report({ subject: FaultSubject.UnknownOwnerForwardFault, ids: [...this.#unknown] });
    this.#byOwner.clear();
    this.#unknown.clear();
    this.#count = 0;
  }
}
