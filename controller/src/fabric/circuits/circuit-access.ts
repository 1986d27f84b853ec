import type { Logger, Permission } from "@sallyport/wire";
import type { AccessQuestion, Revoked } from "../change-port.ts";
import { DenialCode, type FabricModel } from "../ports.ts";
import { EdgeRefusal } from "../requests.ts";
import { isSignedToken, namesIn } from "../token-names.ts";
import type { Circuit } from "./circuit.ts";
import type { CircuitRegistry } from "./circuit-registry.ts";

/** Wait before a failed check is repeated. */
const RETRY_MS = 5_000;

interface CircuitAccessParts {
  readonly model: Pick<FabricModel, "deniedAccess" | "goneSessions" | "goneApiSessions" | "identitiesRevoked">;
  readonly circuits: CircuitRegistry;
  readonly log: Logger;
}

/** The tokens that a dial came with. What they name decides only which changes end the dial: the model says what they prove. */
interface DialTokens {
  readonly sessionToken?: string;
  readonly apiSessionToken?: string;
}

interface PendingDial {
  isRevoked: boolean;
  /** When its access token was issued, in seconds. */
  readonly issuedAt: number | undefined;
}

/**
 * Ends circuits that are no longer allowed: their session is gone, or revoked, the identity of their tunneling router may not dial any more, or their host may
 * not host any more. A circuit whose right ends while it is made ends, too. Source: docs/protocol/fabric.md, "Access".
 */
export class CircuitAccess {
  readonly #parts: CircuitAccessParts;
  /** Dials under way, by each of the things that they end with: see {@link ownersOf}. */
  readonly #pending = new Map<string, Set<PendingDial>>();
  /** Grows with every change that may take access away. */
  #epoch = 0;
  /** Counts sessions with signed tokens that ended: a dial with the opaque token that such a session had before is not found by it. */
  #signedEnds = 0;
  #isChecking = false;
  #isCheckDue = false;
  #areSessionsDue = false;
  #isClosed = false;

  constructor(parts: CircuitAccessParts) {
    this.#parts = parts;
  }

  /**
   * Makes a circuit under a session. When the session ends meanwhile, or the access token is revoked, the circuit ends, too.
   * @throws EdgeRefusal in that case, and whatever `make` throws
   */
  whileSessionLasts(tokens: DialTokens, make: () => Promise<Circuit>): Promise<Circuit> {
    return this.#whileProved(tokens, DenialCode.InvalidSession, async () => {
      const signedEnds = this.#signedEnds;
      const epoch = this.#epoch;
      const circuit = await make();
      // The check for what changed meanwhile may have come before this circuit: its host is looked at once more.
      if (this.#epoch !== epoch) this.#due();
      if (this.#signedEnds !== signedEnds && !isSignedToken(tokens.sessionToken ?? ""))
        await this.#checkSession(circuit);
      return circuit;
    });
  }

  /**
   * Makes a circuit that an access token allows without a session. When its API session ends meanwhile, or is revoked, the circuit ends, too. When access
   * changes, it is asked for again.
   * @throws EdgeRefusal in these cases, and whatever `make` throws
   */
  whileTokenCounts(apiSessionToken: string, make: () => Promise<Circuit>): Promise<Circuit> {
    return this.#whileProved({ apiSessionToken }, DenialCode.InvalidApiSession, () => this.whileAllowed(make));
  }

  async #whileProved(tokens: DialTokens, refusal: DenialCode, make: () => Promise<Circuit>): Promise<Circuit> {
    const dial: PendingDial = { isRevoked: false, issuedAt: namesIn(tokens.apiSessionToken ?? "")?.issuedAt };
    const owners = ownersOf(tokens);
    for (const owner of owners) this.#pending.getOrInsertComputed(owner, () => new Set()).add(dial);
    try {
      const circuit = await make();
      if (!dial.isRevoked) return circuit;
      this.#parts.circuits.end(circuit.id, true, "its session ended while it was made");
      throw new EdgeRefusal(refusal, undefined, circuit.id);
    } finally {
      for (const owner of owners) {
        const dials = this.#pending.get(owner);
        dials?.delete(dial);
        if (dials?.size === 0) this.#pending.delete(owner);
      }
    }
  }

  /** @throws EdgeRefusal when the session of the circuit is gone, which ends then */
  async #checkSession(circuit: Circuit): Promise<void> {
    const { model, circuits } = this.#parts;
    if (circuit.grant.kind !== "session") return;
    const gone = await model.goneSessions([circuit.grant.sessionId]).catch((error: unknown) => {
      circuits.end(circuit.id, true, "whether its session lasts is not known");
      throw error;
    });
    if (gone.length === 0) return;
    circuits.end(circuit.id, true, "its session ended while it was made");
    throw new EdgeRefusal(DenialCode.InvalidSession, undefined, circuit.id);
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
    if (isSignedToken(token)) this.#signedEnds += 1;
    // By its id a dial with any signed token of the session is found, by the token itself one with an opaque token.
    this.#revokePending(`session ${id}`);
    this.#revokePending(`session ${token}`);
    this.#endOfSession(id);
    // A host may have other sessions: whether it may still host is asked.
    if (session?.type === "Bind") this.changed();
  }

  /** Circuits under its sessions end with these. */
  apiSessionRemoved(id: string): void {
    this.#revokePending(`api-session ${id}`);
    this.#endOfApiSession(id);
  }

  /** A single token opens nothing new from now on; circuits that it has opened last as long as its API session. */
  revoked({ type, id, issuedBefore }: Revoked): void {
    switch (type) {
      case "JTI":
        this.#revokePending(`token ${id}`);
        return;
      case "API_SESSION":
        this.apiSessionRemoved(id);
        return;
      case "IDENTITY": {
        const until = issuedBefore === undefined ? Number.POSITIVE_INFINITY : secondOf(issuedBefore);
        this.#revokePending(`identity ${id}`, until);
        this.#endOfTokens(new Map([[id, until]]));
      }
    }
  }

  /** @param until in seconds: dials with an access token that was issued later go on */
  #revokePending(owner: string, until = Number.POSITIVE_INFINITY): void {
    for (const dial of this.#pending.get(owner) ?? []) if ((dial.issuedAt ?? 0) <= until) dial.isRevoked = true;
  }

  /** An identity may have lost access: checks circuits without sessions, and their hosts. */
  changed(): void {
    this.#epoch += 1;
    this.#due();
  }

  /** Circuits have come whose rights may have gone before: all are looked at again. */
  recheck(): void {
    this.#areSessionsDue = true;
    this.changed();
  }

  /** Everything may have changed. */
  changesLost(): void {
    for (const dials of this.#pending.values()) for (const dial of dials) dial.isRevoked = true;
    this.recheck();
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
    for (const id of ids.length === 0 ? [] : await model.goneSessions(ids)) this.#endOfSession(id);
    const apiSessionIds = circuits.apiSessionIds();
    for (const id of apiSessionIds.length === 0 ? [] : await model.goneApiSessions(apiSessionIds)) {
      this.#endOfApiSession(id);
    }
    const identityIds = circuits.all().flatMap(({ grant }) => (grant.kind === "token" ? grant.identityId : []));
    if (identityIds.length === 0) return;
    const revoked = await model.identitiesRevoked([...new Set(identityIds)]);
    this.#endOfTokens(new Map(revoked.map(({ id, issuedBefore }) => [id, secondOf(issuedBefore)])));
  }

  #endOfSession(id: string): void {
    const { circuits } = this.#parts;
    for (const circuitId of circuits.ofSession(id)) circuits.end(circuitId, true, "its session ended");
  }

  #endOfApiSession(id: string): void {
    const { circuits } = this.#parts;
    for (const circuitId of circuits.ofApiSession(id)) circuits.end(circuitId, true, "its API session ended");
  }

  /** @param until by identity, in seconds: circuits of tokens that were issued later go on */
  #endOfTokens(until: ReadonlyMap<string, number>): void {
    const { circuits } = this.#parts;
    for (const { id, grant } of circuits.all()) {
      if (grant.kind !== "token") continue;
      const revoked = until.get(grant.identityId);
      if (revoked === undefined || secondOf(grant.issuedAt) > revoked) continue;
      circuits.end(id, true, "the tokens of its identity were revoked");
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
      if (circuit.grant.kind !== "session") ask("Dial", circuit.clientId, circuit);
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

function secondOf(time: Date): number {
  return Math.floor(time.getTime() / 1_000);
}

/** What a dial ends with: its session, or the API session, the token and the identity of its access token. */
function ownersOf({ sessionToken = "", apiSessionToken = "" }: DialTokens): string[] {
  const owners = sessionToken === "" ? [] : [`session ${namesIn(sessionToken)?.id ?? sessionToken}`];
  const access = namesIn(apiSessionToken);
  if (access === undefined) return owners;
  const { id, apiSessionId, subject } = access;
  if (id !== undefined) owners.push(`token ${id}`);
  if (apiSessionId !== undefined) owners.push(`api-session ${apiSessionId}`);
  if (subject !== undefined) owners.push(`identity ${subject}`);
  return owners;
}
