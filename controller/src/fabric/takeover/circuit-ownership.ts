import type { Logger } from "@sallyport/wire";
import type { CircuitRegistry } from "../circuits/circuit-registry.ts";
import type { EmitEvent } from "../fabric-events.ts";
import type { FabricReplicas } from "../replicas.ts";

interface CircuitOwnershipParts {
  readonly replicas: FabricReplicas;
  readonly circuits: CircuitRegistry;
  /** Circuits may be moved again. */
  readonly onSure: () => void;
  readonly log: Logger;
}

/**
 * Are the circuits of this controller still its own? When its lease had run out, another controller may have taken them over: it moves none until it has looked
 * that up, and forgets those that are another's. Source: docs/protocol/replicas.md, "Circuits".
 */
export class CircuitOwnership {
  readonly #parts: CircuitOwnershipParts;
  /** The term of the lease in which no circuit was taken over. */
  #sureTerm: number | undefined;
  #isChecking = false;
  /** Circuits that the database names as this controller's. */
  readonly #claimed = new Set<string>();
  readonly #stopping: (() => void)[];

  constructor(parts: CircuitOwnershipParts) {
    this.#parts = parts;
    this.#sureTerm = parts.replicas.leaseTerm;
    this.#stopping = [parts.replicas.onLook(() => void this.#check())];
  }

  get isSure(): boolean {
    const { leaseTerm } = this.#parts.replicas;
    return leaseTerm !== undefined && leaseTerm === this.#sureTerm;
  }

  claimed(circuitId: string): void {
    this.#claimed.add(circuitId);
  }

  readonly noteEvent: EmitEvent = (event) => {
    if (event.kind !== "circuit-removed" || !this.#claimed.delete(event.circuit.id)) return;
    this.#parts.replicas.ended([event.circuit.id]);
  };

  close(): void {
    for (const stop of this.#stopping) stop();
  }

  /** The first failure is tried again with the next look at the leases. */
  async #check(): Promise<void> {
    const { replicas, circuits, onSure, log } = this.#parts;
    const { leaseTerm } = replicas;
    if (this.#isChecking || leaseTerm === undefined || leaseTerm === this.#sureTerm) return;
    this.#isChecking = true;
    try {
      const ids = circuits.all().map(({ id }) => id);
      const taken = ids.length === 0 ? new Map<string, string>() : await replicas.ownersOf(ids);
      for (const id of taken.keys()) {
        circuits.forget(id);
        this.#claimed.delete(id);
      }
      if (taken.size > 0) {
        log.warn({ circuits: taken.size }, "while this controller stood still, others have taken circuits over");
      }
      this.#sureTerm = leaseTerm;
      if (this.isSure) onSure();
    } catch (err) {
      log.debug({ err }, "whether circuits were taken over could not be looked up; trying again");
    } finally {
      this.#isChecking = false;
    }
  }
}
