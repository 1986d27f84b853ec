import { BoundedMap } from "@sallyport/async";
import type { Permission } from "@sallyport/wire";
import type { DialFacts } from "../../policy/why/facts.ts";

/** A dial, or a bind, that was refused or came to nothing. */
export interface DialFailure {
  readonly serviceId: string;
  readonly type: Permission;
  /** For programs: the cause of a circuit event, the code of an API error, or one of {@link DialRefusal}. */
  readonly code: string;
  readonly message: string;
  /** Of the edge router that asked; absent for a session that the Client API refused. */
  readonly routerId?: string;
}

/** Refusals that are no API error and no failure of a circuit. */
export const DialRefusal = {
  AccessDenied: "ACCESS_DENIED",
  PostureCheckFailed: "POSTURE_CHECK_FAILED",
  InvalidEdgeRouter: "INVALID_EDGE_ROUTER",
  EncryptionDataMissing: "ENCRYPTION_DATA_MISSING",
} as const;

interface Kept extends DialFailure {
  readonly at: number;
  /** How often in a row. */
  readonly count: number;
}

/** A failure, as the list of all has it. */
export interface IdentityFailure extends Kept {
  readonly identityId: string;
  /** A dial of the service has succeeded after it. */
  readonly hasSucceededSince: boolean;
}

interface OfIdentity {
  /** Newest last. */
  readonly failures: Kept[];
  /** When a circuit for a service came about, of the services among the failures. */
  readonly succeededAt: Map<string, number>;
}

/** What one controller remembers of dials, or binds, of a service by an identity. */
export interface DialMemory extends Pick<DialFacts, "failed"> {
  /** When a dial has succeeded last, in milliseconds since 1970. */
  readonly succeededAt?: number;
}

/** Together some 20 MB at most: identities fill it as they like. */
export const FAILED_DIALS = { maxIdentities: 2_000, maxEach: 20, maxCharacters: 300 };
/** Dials that succeeded here, after a failure that another controller may remember. */
const MAX_SUCCESSES = 10_000;

/**
 * The newest failures of each identity, in memory. What an identity does makes room among its own entries, and at the bound of identities those go that have
 * not failed for longest. Repetitions count as one.
 */
export class FailedDials {
  readonly #byIdentity: BoundedMap<string, OfIdentity>;
  /** By identity and service. */
  readonly #succeededAt = new BoundedMap<string, number>(MAX_SUCCESSES);
  readonly #now: () => Date;
  readonly #bounds: typeof FAILED_DIALS;

  constructor(now: () => Date, bounds = FAILED_DIALS) {
    this.#now = now;
    this.#bounds = bounds;
    this.#byIdentity = new BoundedMap(bounds.maxIdentities);
  }

  add(identityId: string, failure: DialFailure): void {
    const of: OfIdentity = this.#byIdentity.get(identityId) ?? { failures: [], succeededAt: new Map() };
    const { failures, succeededAt } = of;
    const { serviceId, type, code } = failure;
    const last = failures.findLastIndex((each) => each.serviceId === serviceId && each.type === type);
    const isRepeated = failures[last]?.code === code && !this.#hasSucceededSince(of, failures[last]);
    const [repeated] = isRepeated ? failures.splice(last, 1) : [];
    const message = failure.message.slice(0, this.#bounds.maxCharacters);
    failures.push({ ...failure, message, at: this.#now().getTime(), count: (repeated?.count ?? 0) + 1 });
    const gone = failures.length > this.#bounds.maxEach ? failures.shift() : undefined;
    if (gone !== undefined && !failures.some((each) => each.serviceId === gone.serviceId)) {
      succeededAt.delete(gone.serviceId);
    }
    this.#byIdentity.set(identityId, of);
  }

  /** A circuit came about. */
  succeeded(identityId: string, serviceId: string): void {
    this.#succeededAt.set(`${identityId} ${serviceId}`, this.#now().getTime());
    const of = this.#byIdentity.get(identityId);
    if (of?.failures.some((each) => each.serviceId === serviceId && each.type === "Dial") !== true) return;
    of.succeededAt.set(serviceId, this.#now().getTime());
  }

  /** Of one service, newest first. */
  of(identityId: string, serviceId: string, type: Permission): DialFacts {
    return joinedDials([this.recent(identityId, serviceId, type)], type);
  }

  /** The same, for one who asks several controllers. */
  recent(identityId: string, serviceId: string, type: Permission): DialMemory {
    const of = this.#byIdentity.get(identityId);
    const failed = (of?.failures ?? []).filter((each) => each.serviceId === serviceId && each.type === type).reverse();
    const succeededAt = of?.succeededAt.get(serviceId) ?? this.#succeededAt.get(`${identityId} ${serviceId}`);
    return {
      failed: failed.map(({ at, code, message, routerId, count }) => {
        return { at, code, message, count, ...(routerId !== undefined && { routerId }) };
      }),
      ...(succeededAt !== undefined && { succeededAt }),
    };
  }

  /** Of all identities, newest first. */
  newest(limit: number): readonly IdentityFailure[] {
    const found: IdentityFailure[] = [];
    for (const [identityId, of] of this.#byIdentity.entries()) {
      for (const failure of of.failures) {
        found.push({ identityId, ...failure, hasSucceededSince: this.#hasSucceededSince(of, failure) });
      }
    }
    return found.sort((a, b) => b.at - a.at).slice(0, limit);
  }

  forget(identityId: string): void {
    this.#byIdentity.delete(identityId);
  }

  #hasSucceededSince({ succeededAt }: OfIdentity, failure: Kept | undefined): boolean {
    if (failure === undefined || failure.type === "Bind") return false;
    return (succeededAt.get(failure.serviceId) ?? Number.NEGATIVE_INFINITY) >= failure.at;
  }
}

/** What several controllers remember, as if one did. Their clocks may differ by what they are synchronised to. */
export function joinedDials(of: readonly DialMemory[], type: Permission): DialFacts {
  const failed = of
    .flatMap((each) => each.failed)
    .sort((a, b) => b.at - a.at)
    .slice(0, FAILED_DIALS.maxEach);
  const newest = failed[0];
  const hasSucceededSince =
    type === "Dial" &&
    newest !== undefined &&
    of.some(({ succeededAt = Number.NEGATIVE_INFINITY }) => succeededAt >= newest.at);
  return { failed, hasSucceededSince };
}
