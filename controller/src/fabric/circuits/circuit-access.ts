import type { Logger, Permission } from "@sallyport/wire";
import { type AccessQuestion, DenialCode, type FabricModel } from "../ports.ts";
import { EdgeRefusal } from "../requests.ts";
import type { Circuit } from "./circuit.ts";
import type { CircuitRegistry } from "./circuit-registry.ts";

/** Wait before a failed check is repeated. */
const RETRY_MS = 5_000;

interface CircuitAccessParts {
  readonly model: Pick<FabricModel, "deniedAccess" | "goneSessions">;
  readonly circuits: CircuitRegistry;
  readonly log: Logger;
}

interface PendingDial {
  isRevoked: boolean;
}

/**
 * Ends circuits that are no longer allowed: their session is gone, the identity of their tunneling router may not dial any more, or their host may not host
 * any more. A circuit whose right ends while it is made ends, too. Source: docs/protocol/fabric.md, "Access".
 */
export class CircuitAccess {
  readonly #parts: CircuitAccessParts;
  /** Dials under way, by session token. */
  readonly #pending = new Map<string, Set<PendingDial>>();
  /** Grows with every change that may take access away. */
  #epoch = 0;
  #isChecking = false;
  #isCheckDue = false;
  #areSessionsDue = false;
  #isClosed = false;

  constructor(parts: CircuitAccessParts) {
    this.#parts = parts;
  }

  /**
   * Makes a circuit under a session. When the session ends meanwhile, the circuit ends, too.
   * @throws EdgeRefusal in that case, and whatever `make` throws
   */
  async whileSessionLasts(token: string, make: () => Promise<Circuit>): Promise<Circuit> {
    const dial: PendingDial = { isRevoked: false };
    const dials = this.#pending.getOrInsertComputed(token, () => new Set()).add(dial);
    const epoch = this.#epoch;
    try {
      const circuit = await make();
      // The check for what changed meanwhile may have come before this circuit: its host is looked at once more.
      if (this.#epoch !== epoch) this.#due();
      if (!dial.isRevoked) return circuit;
      this.#parts.circuits.end(circuit.id, true, "its session ended while it was made");
      throw new EdgeRefusal(DenialCode.InvalidSession, undefined, circuit.id);
    } finally {
      dials.delete(dial);
      if (dials.size === 0) this.#pending.delete(token);
    }
  }

  /**
   * Makes a circuit that an identity may have without a session. When access changes meanwhile, it is asked for again.
   * @throws EdgeRefusal when it is denied then, and whatever `make` throws
   */
  async whileAllowed(make: () => Promise<Circuit>): Promise<Circuit> {
    const epoch = this.#epoch;
    const circuit = await make();
    if (this.#epoch === epoch) return circuit;
    const { clientId: identityId, serviceId } = circuit;
    const denied = await this.#parts.model
      .deniedAccess([{ identityId, serviceId, type: "Dial" }])
      .catch((error: unknown) => {
        this.#parts.circuits.end(circuit.id, true, "whether the right to it lasts is not known");
        throw error;
      });
    // The check for what changed meanwhile may have come before this circuit: its host is looked at once more.
    this.#due();
    if (denied.length === 0) return circuit;
    this.#parts.circuits.end(circuit.id, true, "the right to it ended while it was made");
    throw new EdgeRefusal(DenialCode.AccessDenied, undefined, circuit.id);
  }

  sessionRemoved(id: string, token: string, session?: AccessQuestion): void {
    const { circuits } = this.#parts;
    for (const dial of this.#pending.get(token) ?? []) dial.isRevoked = true;
    for (const circuitId of circuits.ofSession(id)) circuits.end(circuitId, true, "its session ended");
    // A host may have other sessions: whether it may still host is asked.
    if (session?.type === "Bind") this.changed();
  }

  /** An identity may have lost access: checks circuits without sessions, and their hosts. */
  changed(): void {
    this.#epoch += 1;
    this.#due();
  }

  /** Everything may have changed. */
  changesLost(): void {
    for (const dials of this.#pending.values()) for (const dial of dials) dial.isRevoked = true;
    this.#areSessionsDue = true;
    this.changed();
  }

  close(): void {
    this.#isClosed = true;
  }

  #due(): void {
    this.#isCheckDue = true;
    void this.#check();
  }

  /** One check at a time; what changes while it runs is covered by one more. */
  async #check(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    try {
      while ((this.#isCheckDue || this.#areSessionsDue) && !this.#isClosed) {
        const areSessionsDue = this.#areSessionsDue;
        this.#isCheckDue = false;
        this.#areSessionsDue = false;
        try {
          if (areSessionsDue) await this.#checkSessions();
          await this.#checkIdentities();
        } catch (err) {
          this.#parts.log.error({ err }, "which circuits have lost their access could not be checked; trying again");
          const again = () => {
            this.#areSessionsDue ||= areSessionsDue;
            this.#due();
          };
          setTimeout(again, RETRY_MS).unref();
        }
      }
    } finally {
      this.#isChecking = false;
    }
  }

  async #checkSessions(): Promise<void> {
    const { model, circuits } = this.#parts;
    const ids = circuits.sessionIds();
    if (ids.length === 0) return;
    for (const id of await model.goneSessions(ids)) {
      for (const circuitId of circuits.ofSession(id)) circuits.end(circuitId, true, "its session ended");
    }
  }

  async #checkIdentities(): Promise<void> {
    const { model, circuits } = this.#parts;
    const questions = new Map<string, AccessQuestion & { readonly circuitIds: string[] }>();
    const ask = (type: Permission, identityId: string, circuit: Circuit) => {
      const question = { type, identityId, serviceId: circuit.serviceId };
      questions
        .getOrInsertComputed(keyOf(question), () => ({ ...question, circuitIds: [] }))
        .circuitIds.push(circuit.id);
    };
    for (const circuit of circuits.all()) {
      if (circuit.grant.kind === "identity") ask("Dial", circuit.clientId, circuit);
      if (circuit.hostId !== "") ask("Bind", circuit.hostId, circuit);
    }
    if (questions.size === 0) return;
    const asked = [...questions.values()].map(({ identityId, serviceId, type }) => ({ identityId, serviceId, type }));
    for (const denied of await model.deniedAccess(asked)) {
      const reason = denied.type === "Dial" ? "its identity may not dial any more" : "its host may not host any more";
      for (const id of questions.get(keyOf(denied))?.circuitIds ?? []) circuits.end(id, true, reason);
    }
  }
}

function keyOf({ type, identityId, serviceId }: AccessQuestion): string {
  return `${type} ${identityId} ${serviceId}`;
}
