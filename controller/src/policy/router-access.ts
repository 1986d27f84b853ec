import { type Attributed, matches, type RoleSelector, SelectedBy, type Selecting } from "./selector.ts";

/** An edge-router policy (`from` selects identities) or a service-edge-router policy (`from` selects services). */
export interface RouterPolicy extends Selecting {
  readonly from: RoleSelector;
  readonly routers: RoleSelector;
}

/** Which edge routers identities (or services) may use: the policies of one kind, each with its routers. */
export class RouterAccess {
  readonly #policies = new Map<string, RouterPolicy>();
  readonly #members = new Map<string, Set<string>>();
  readonly #from = new SelectedBy<RouterPolicy>((policy) => policy.from);

  putPolicy(policy: RouterPolicy, routers: Iterable<Attributed>): void {
    this.removePolicy(policy.id);
    this.#policies.set(policy.id, policy);
    this.#from.add(policy);
    const members = new Set<string>();
    for (const router of routers) if (matches(policy.routers, policy.semantic, router)) members.add(router.id);
    this.#members.set(policy.id, members);
  }

  removePolicy(id: string): void {
    const policy = this.#policies.get(id);
    if (!policy) return;
    this.#policies.delete(id);
    this.#members.delete(id);
    this.#from.remove(policy);
  }

  putRouter(router: Attributed): void {
    for (const policy of this.#policies.values()) {
      const members = this.#members.get(policy.id);
      if (matches(policy.routers, policy.semantic, router)) members?.add(router.id);
      else members?.delete(router.id);
    }
  }

  removeRouter(id: string): void {
    for (const members of this.#members.values()) members.delete(id);
  }

  /** The policies that select the entity. */
  policiesOf(entity: Attributed): RouterPolicy[] {
    return this.#from.of(entity);
  }

  /** Ids of the routers that the entity may use. */
  routersOf(entity: Attributed): Set<string> {
    const routers = new Set<string>();
    for (const policy of this.policiesOf(entity)) {
      for (const id of this.#members.get(policy.id) ?? []) routers.add(id);
    }
    return routers;
  }
}
