import { Bitset } from "@sallyport/async";
import { type Attributed, matches, type RoleSelector, type Semantic, selectedSlots } from "./selector.ts";

/** One side of a policy: what it selects there. */
export interface PolicySide {
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

/** Long work asks in every step whether a pause is due, after a long step whether the time is over, and pauses. */
export interface Slices {
  readonly isDue: boolean;
  readonly isOver: boolean;
  pause(): Promise<void>;
}

/** Policies whose attributes are looked up together: a set of entities is kept for each attribute meanwhile. */
const POLICIES_AT_ONCE = 200;

/**
 * Which entities of one kind every policy selects, spelled out: one bit for each entity and policy. A change answers which memberships it begins and ends.
 * (100,000 entities and 1,000 policies: 12.5 MB.)
 */
export class Membership {
  readonly #slots = new Map<string, number>();
  readonly #entities: (Attributed | undefined)[] = [];
  readonly #taken = new Bitset();
  readonly #free: number[] = [];
  readonly #policies = new Map<string, { readonly side: PolicySide; readonly members: Bitset }>();
  /** The entities that have an attribute, for every attribute; undefined when they are looked up for each policy. */
  readonly #byAttribute: Map<string, Bitset> | undefined;

  /**
   * @param isSmall the entities are few: keeps a set of them for every attribute, so that {@link setPolicy} needs no look at each of them. Of identities, most
   *   of which may have an attribute of their own, these sets would be too large
   */
  constructor({ isSmall }: { readonly isSmall: boolean }) {
    this.#byAttribute = isSmall ? new Map() : undefined;
  }

  /** An entity is new or has other attributes. */
  put(entity: Attributed): MembershipChange[] {
    let slot = this.#slots.get(entity.id);
    const known = slot === undefined ? undefined : this.#entities[slot];
    if (slot === undefined) {
      slot = this.#free.pop() ?? this.#entities.length;
      this.#slots.set(entity.id, slot);
      this.#taken.set(slot, true);
    } else if (known !== undefined && isSame(known.attrs, entity.attrs)) return [];
    this.#setAttributes(slot, known?.attrs, false);
    this.#entities[slot] = { id: entity.id, attrs: entity.attrs };
    this.#setAttributes(slot, entity.attrs, true);
    const changes: MembershipChange[] = [];
    for (const [policyId, { side, members }] of this.#policies) {
      const isMember = matches(side.selector, side.semantic, entity);
      if (members.has(slot) === isMember) continue;
      members.set(slot, isMember);
      changes.push({ policyId, entityId: entity.id, isMember });
    }
    return changes;
  }

  remove(entityId: string): MembershipChange[] {
    const slot = this.#slots.get(entityId);
    if (slot === undefined) return [];
    this.#setAttributes(slot, this.#entities[slot]?.attrs, false);
    this.#slots.delete(entityId);
    this.#entities[slot] = undefined;
    this.#taken.set(slot, false);
    this.#free.push(slot);
    const changes: MembershipChange[] = [];
    for (const [policyId, { members }] of this.#policies) {
      if (!members.has(slot)) continue;
      members.set(slot, false);
      changes.push({ policyId, entityId, isMember: false });
    }
    return changes;
  }

  /** A policy is new or selects otherwise: at once, where {@link putPolicy} pauses and answers what that changes. */
  setPolicy(side: PolicySide): void {
    this.#setPolicy(side, this.#byAttribute ?? drained(this.#lookUp([side])));
  }

  /** Policies of which nothing was known. */
  async addPolicies(sides: readonly PolicySide[], slices: Slices): Promise<void> {
    for (let at = 0; at < sides.length; at += POLICIES_AT_ONCE) {
      const some = sides.slice(at, at + POLICIES_AT_ONCE);
      const byAttribute = this.#byAttribute ?? (await inSlices(this.#lookUp(some), slices));
      for (const side of some) {
        this.#setPolicy(side, byAttribute);
        if (slices.isOver) await slices.pause();
      }
    }
  }

  /** A policy is new or selects otherwise. */
  async putPolicy(side: PolicySide, slices: Slices): Promise<MembershipChange[]> {
    const { policyId } = side;
    const before = this.slotsOf(policyId);
    await this.addPolicies([side], slices);
    const now = this.slotsOf(policyId);
    const changes: MembershipChange[] = [];
    const note = async (slots: Iterable<number>, isMember: boolean): Promise<void> => {
      for (const slot of slots) {
        if (slices.isDue) await slices.pause();
        const entityId = this.#entities[slot]?.id;
        if (entityId !== undefined) changes.push({ policyId, entityId, isMember });
      }
    };
    await note(now.without(before), true);
    await note(before.without(now), false);
    return changes;
  }

  /** Forgets a policy. */
  dropPolicy(policyId: string): void {
    this.#policies.delete(policyId);
  }

  async removePolicy(policyId: string, slices: Slices): Promise<MembershipChange[]> {
    const changes: MembershipChange[] = [];
    for (const entityId of this.membersOf(policyId)) {
      if (slices.isDue) await slices.pause();
      changes.push({ policyId, entityId, isMember: false });
    }
    this.#policies.delete(policyId);
    return changes;
  }

  /** Ids of what the policy selects. */
  *membersOf(policyId: string): Generator<string> {
    for (const slot of this.slotsOf(policyId)) {
      const entity = this.#entities[slot];
      if (entity !== undefined) yield entity.id;
    }
  }

  /** The slots of what the policy selects: not to be changed. */
  slotsOf(policyId: string): Bitset {
    return this.#policies.get(policyId)?.members ?? NOTHING;
  }

  has(policyId: string, entityId: string): boolean {
    const slot = this.#slots.get(entityId);
    return slot !== undefined && this.slotsOf(policyId).has(slot);
  }

  slotOf(entityId: string): number | undefined {
    return this.#slots.get(entityId);
  }

  entity(entityId: string): Attributed | undefined {
    const slot = this.#slots.get(entityId);
    return slot === undefined ? undefined : this.#entities[slot];
  }

  /** How many slots there are; each is less. */
  get capacity(): number {
    return this.#entities.length;
  }

  #setPolicy(side: PolicySide, byAttribute: ReadonlyMap<string, Bitset>): void {
    const members = selectedSlots(side.selector, side.semantic, {
      all: this.#taken,
      having: (attr) => byAttribute.get(attr),
      slotOf: (id) => this.#slots.get(id),
    });
    this.#policies.set(side.policyId, { side, members });
  }

  #setAttributes(slot: number, attrs: readonly string[] | undefined, value: boolean): void {
    const byAttribute = this.#byAttribute;
    if (byAttribute === undefined) return;
    for (const attr of attrs ?? []) {
      const having = byAttribute.get(attr) ?? new Bitset(this.#entities.length);
      having.set(slot, value);
      if (value || having.size > 0) byAttribute.set(attr, having);
      else byAttribute.delete(attr);
    }
  }

  /** The entities that have the attributes of these policies: one look at each entity, however many policies there are. */
  *#lookUp(sides: readonly PolicySide[]): Generator<void, ReadonlyMap<string, Bitset>> {
    const attrs = sides.flatMap(({ selector }) => (selector.all ? [] : selector.attrs));
    const found = new Map(attrs.map((attr) => [attr, new Bitset(this.#entities.length)]));
    if (found.size === 0) return found;
    for (const [slot, entity] of this.#entities.entries()) {
      yield;
      for (const attr of entity?.attrs ?? []) found.get(attr)?.set(slot, true);
    }
    return found;
  }
}

function drained<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

async function inSlices<T>(steps: Generator<void, T>, slices: Slices): Promise<T> {
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    if (slices.isDue) await slices.pause();
  }
}

const NOTHING = new Bitset();

function isSame(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((attr, at) => attr === b[at]);
}
