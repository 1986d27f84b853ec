import { Bitset } from "@sallyport/async";
import type { Permission } from "@sallyport/wire";

/** Gives each of many ids a small number, to stand for it in sets of bits. Numbers of ids that are gone are given again. */
export class Slots {
  readonly #idOf: (string | undefined)[] = [];
  readonly #free: number[] = [];

  take(id: string): number {
    const slot = this.#free.pop() ?? this.#idOf.length;
    this.#idOf[slot] = id;
    return slot;
  }

  /** Before it, the slot must have been taken out of every set. */
  release(slot: number): void {
    this.#idOf[slot] = undefined;
    this.#free.push(slot);
  }

  idOf(slot: number): string | undefined {
    return this.#idOf[slot];
  }
}

/** A service policy with what it selects. One bit for each identity and service: a thousand policies for 100,000 identities take 13 MB. */
export interface ModelPolicy {
  readonly id: string;
  /** Undefined: of a type that is not known, which grants nothing. */
  readonly type: Permission | undefined;
  readonly identities: Bitset;
  readonly services: Bitset;
  readonly checkIds: ReadonlySet<string>;
}

/** The service policies of a network and their members, as slots. */
export class PolicyMembers {
  readonly #policies = new Map<string, ModelPolicy & { readonly checkIds: Set<string> }>();

  all(): MapIterator<ModelPolicy> {
    return this.#policies.values();
  }

  get(id: string): ModelPolicy | undefined {
    return this.#policies.get(id);
  }

  /** A changed policy keeps its members: they come in messages of their own. */
  put({ id, type }: Pick<ModelPolicy, "id" | "type">): void {
    const known = this.#policies.get(id) ?? { identities: new Bitset(), services: new Bitset(), checkIds: new Set() };
    this.#policies.set(id, { ...known, id, type });
  }

  delete(id: string): void {
    this.#policies.delete(id);
  }

  setCheck(policyId: string, checkId: string, isAsked: boolean): void {
    const checkIds = this.#policies.get(policyId)?.checkIds;
    if (isAsked) checkIds?.add(checkId);
    else checkIds?.delete(checkId);
  }

  /** Takes an identity or a service out of every policy. */
  forget(kind: "identities" | "services", slot: number): void {
    for (const policy of this.#policies.values()) policy[kind].set(slot, false);
  }

  /** The policies that select both. */
  *selecting(identity: number, service: number): Generator<ModelPolicy> {
    for (const policy of this.#policies.values()) {
      if (policy.services.has(service) && policy.identities.has(identity)) yield policy;
    }
  }

  *ofIdentity(slot: number): Generator<ModelPolicy> {
    for (const policy of this.#policies.values()) if (policy.identities.has(slot)) yield policy;
  }
}
