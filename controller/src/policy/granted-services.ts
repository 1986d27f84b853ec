import type { Permission } from "@sallyport/wire";
import type { Bitset } from "./bitset.ts";
import type { Attributed } from "./selector.ts";

/** A service and its number in the bit sets. */
export interface ServiceSlot {
  readonly number: number;
  readonly service: Attributed;
}

/** The services that an identity may dial or bind, as the index has them at this moment: ask at once, and do not keep it across a wait. */
export class GrantedServices {
  readonly #ordered: readonly ServiceSlot[];
  readonly #slots: ReadonlyMap<string, ServiceSlot>;
  readonly #granted: Readonly<Record<Permission, Bitset>>;
  readonly #either: Bitset;

  /** @param ordered every service by id; @param either the union of both permissions */
  constructor(
    ordered: readonly ServiceSlot[],
    slots: ReadonlyMap<string, ServiceSlot>,
    granted: Readonly<Record<Permission, Bitset>>,
    either: Bitset,
  ) {
    this.#ordered = ordered;
    this.#slots = slots;
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
    for (const { number, service } of this.#ordered) {
      if (ids.length >= limit) break;
      if (!members.has(number)) continue;
      if (skipped < offset) skipped++;
      else ids.push(service.id);
    }
    return ids;
  }

  /** `Bind` before `Dial`; empty when neither is granted, or the service is not known. */
  permissionsOn(serviceId: string): Permission[] {
    const slot = this.#slots.get(serviceId);
    if (slot === undefined) return [];
    return (["Bind", "Dial"] as const).filter((permission) => this.#granted[permission].has(slot.number));
  }

  #of(permission: Permission | undefined): Bitset {
    return permission === undefined ? this.#either : this.#granted[permission];
  }
}
