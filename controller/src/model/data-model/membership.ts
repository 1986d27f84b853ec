import { Bitset } from "../../policy/bitset.ts";
import { type Attributed, matches, type RoleSelector, type Semantic } from "../../policy/selector.ts";
import type { Breath } from "./breath.ts";

/** One side of a policy: what it selects. */
export interface Selecting {
  readonly policyId: string;
  readonly selector: RoleSelector;
  readonly semantic: Semantic;
}

/** An entity came to be selected by a policy, or is not any more. */
export interface MembershipChange {
  readonly policyId: string;
  readonly entityId: string;
  readonly isMember: boolean;
}

/**
 * Which entities of one kind every policy selects, spelled out: one bit for each entity and policy. Whoever puts something in gets to know what changed by
 * that. (100,000 entities and 1,000 policies: 12.5 MB.)
 */
export class Membership {
  readonly #slots = new Map<string, number>();
  readonly #entities: (Attributed | undefined)[] = [];
  readonly #free: number[] = [];
  readonly #policies = new Map<string, { readonly by: Selecting; readonly members: Bitset }>();

  /** An entity is new or has other attributes. */
  put(entity: Attributed): MembershipChange[] {
    let slot = this.#slots.get(entity.id);
    const known = slot === undefined ? undefined : this.#entities[slot];
    if (slot === undefined) {
      slot = this.#free.pop() ?? this.#entities.length;
      this.#slots.set(entity.id, slot);
    } else if (known !== undefined && isSame(known.attrs, entity.attrs)) return [];
    this.#entities[slot] = entity;
    const changes: MembershipChange[] = [];
    for (const [policyId, { by, members }] of this.#policies) {
      const isMember = matches(by.selector, by.semantic, entity);
      if (members.has(slot) === isMember) continue;
      members.set(slot, isMember);
      changes.push({ policyId, entityId: entity.id, isMember });
    }
    return changes;
  }

  remove(entityId: string): MembershipChange[] {
    const slot = this.#slots.get(entityId);
    if (slot === undefined) return [];
    this.#slots.delete(entityId);
    this.#entities[slot] = undefined;
    this.#free.push(slot);
    const changes: MembershipChange[] = [];
    for (const [policyId, { members }] of this.#policies) {
      if (!members.has(slot)) continue;
      members.set(slot, false);
      changes.push({ policyId, entityId, isMember: false });
    }
    return changes;
  }

  /** A policy is new or selects otherwise. */
  async putPolicy(by: Selecting, breath: Breath): Promise<MembershipChange[]> {
    const members = this.#policies.get(by.policyId)?.members ?? new Bitset(this.#entities.length);
    this.#policies.set(by.policyId, { by, members });
    const changes: MembershipChange[] = [];
    for (const [slot, entity] of this.#entities.entries()) {
      if (breath.isDue) await breath.take();
      if (entity === undefined) continue;
      const isMember = matches(by.selector, by.semantic, entity);
      if (members.has(slot) === isMember) continue;
      members.set(slot, isMember);
      changes.push({ policyId: by.policyId, entityId: entity.id, isMember });
    }
    return changes;
  }

  removePolicy(policyId: string): MembershipChange[] {
    const changes = this.membersOf(policyId).map((entityId) => ({ policyId, entityId, isMember: false }));
    this.#policies.delete(policyId);
    return changes;
  }

  /** Ids of what the policy selects. */
  membersOf(policyId: string): string[] {
    const members = this.#policies.get(policyId)?.members;
    return members === undefined ? [] : [...members].flatMap((slot) => this.#entities[slot]?.id ?? []);
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((attr, at) => attr === b[at]);
}
