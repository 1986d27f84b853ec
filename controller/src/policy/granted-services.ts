import type { Permission } from "@sallyport/wire";
import type { Bitset } from "./bitset.ts";

/** A service and its place in the bit sets. */
export interface ServiceSlot {
  readonly slot: number;
  readonly id: string;
}

/** The services that an identity may dial or bind, as the index has them at this moment: ask at once, and do not keep it across a wait. */
export class GrantedServices {
  readonly #ordered: readonly ServiceSlot[];
  readonly #slotOf: (id: string) => number | undefined;
  readonly #granted: Readonly<Record<Permission, Bitset>>;
  readonly #either: Bitset;

  /** @param ordered every service by id; @param either the union of both permissions */
  constructor(
    ordered: readonly ServiceSlot[],
    slotOf: (id: string) => number | undefined,
    granted: Readonly<Record<Permission, Bitset>>,
    either: Bitset,
  ) {
    this.#ordered = ordered;
    this.#slotOf = slotOf;
    this.#granted = granted;
    this.#either = either;
  }

  /** How many there are, with the permission or with any. */
  count(permission?: Permission): number {
    return this.#of(permission).size;
  }

  /** Ids by their order, from `offset` on, at most `limit`. */
  ids(permission?: Permission, offset = 0, limit = Number.POSITIVE_INFINITY): string[] {
    const members = this.#of(permission);
    const ids: string[] = [];
    let skipped = 0;
    for (const { slot, id } of this.#ordered) {
      if (ids.length >= limit) break;
      if (!members.has(slot)) continue;
      if (skipped < offset) skipped++;
      else ids.push(id);
    }
    return ids;
  }

  /** `Bind` before `Dial`; empty when neither is granted, or the service is not known. */
  permissionsOn(serviceId: string): Permission[] {
    const slot = this.#slotOf(serviceId);
    if (slot === undefined) return [];
    return (["Bind", "Dial"] as const).filter((permission) => this.#granted[permission].has(slot));
  }

  #of(permission: Permission | undefined): Bitset {
    return permission === undefined ? this.#either : this.#granted[permission];
  }
}
