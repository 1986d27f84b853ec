import type { failedServiceRequest, postureCheckFailure } from "@sallyport/api";
import { type PostureCheck, type PostureState, postureType } from "@sallyport/posture";
import type { z } from "zod";

export type CheckFailure = z.input<typeof postureCheckFailure>;
export type FailedRequest = z.input<typeof failedServiceRequest>;

/** What a check wanted and what was known then. @param now milliseconds since 1970 */
export function describeFailure(check: PostureCheck, known: PostureState, now: number): CheckFailure {
  return {
    postureCheckId: check.id,
    postureCheckName: check.name,
    postureCheckType: check.typeId,
    ...postureType(check.typeId).failure(check, known, now),
  } as CheckFailure;
}

const MAX_EACH = 100;
const MAX_CHARACTERS = 16 * 1024 * 1024;

interface KeptRequest {
  readonly request: FailedRequest;
  readonly characters: number;
}

/** The newest hundred failed requests of each identity, in memory; of all together only so much text as is bounded here. */
export class FailedRequests {
  readonly #maxCharacters: number;
  readonly #byIdentity = new Map<string, KeptRequest[]>();
  #characters = 0;

  constructor(maxCharacters = MAX_CHARACTERS) {
    this.#maxCharacters = maxCharacters;
  }

  add(identityId: string, request: FailedRequest): void {
    const entries = this.#byIdentity.get(identityId) ?? [];
    const characters = JSON.stringify(request).length;
    entries.push({ request, characters });
    this.#characters += characters;
    if (entries.length > MAX_EACH) this.#characters -= entries.shift()?.characters ?? 0;
    this.#byIdentity.delete(identityId);
    this.#byIdentity.set(identityId, entries);
    while (this.#characters > this.#maxCharacters) {
      const oldest = this.#byIdentity.keys().next().value;
      if (oldest === undefined) return;
      this.forget(oldest);
    }
  }

  /** Oldest first. */
  of(identityId: string): FailedRequest[] {
    return (this.#byIdentity.get(identityId) ?? []).map(({ request }) => request);
  }

  forget(identityId: string): void {
    for (const { characters } of this.#byIdentity.get(identityId) ?? []) this.#characters -= characters;
    this.#byIdentity.delete(identityId);
  }
}

/** What several controllers remember of one identity, oldest first, as many as one of them keeps. */
export function joinedRequests(of: readonly (readonly FailedRequest[])[]): FailedRequest[] {
  return of
    .flat()
    .sort((a, b) => (a.when < b.when ? -1 : 1))
    .slice(-MAX_EACH);
}
