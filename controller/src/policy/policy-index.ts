import { Bitset } from "@sallyport/async";
import type { PostureCheck } from "@sallyport/posture";
import type { Permission } from "@sallyport/wire";
import { Membership, type Slices } from "./membership.ts";
import { RouterAccess, type RouterPolicy } from "./router-access.ts";
import { type Attributed, matches, type RoleSelector, SelectedBy, type Selecting } from "./selector.ts";

export interface ServicePolicy extends Selecting {
  readonly type: Permission;
  readonly identities: RoleSelector;
  readonly services: RoleSelector;
  readonly postureChecks: RoleSelector;
}

/** A posture check as policies select it, and what it asks for. */
export interface SelectedCheck extends Attributed {
  readonly check: PostureCheck;
}

/** Everything that the index is built from. Identities are not in it: each question brings its own. */
export interface PolicyRows {
  readonly services: readonly Attributed[];
  readonly routers: readonly Attributed[];
  readonly postureChecks: readonly SelectedCheck[];
  readonly servicePolicies: readonly ServicePolicy[];
  readonly edgeRouterPolicies: readonly RouterPolicy[];
  readonly serviceEdgeRouterPolicies: readonly RouterPolicy[];
}

/** What an identity may do with one service, and why. */
export interface ServiceAccess {
  readonly serviceId: string;
  /** `Bind` before `Dial`. */
  readonly permissions: readonly Permission[];
  readonly policyIds: readonly string[];
}

/**
 * Policies and the service side of a network, mirrored for evaluation: who may dial or bind what, over which edge routers. Pure: it is filled with rows
 * and gets changed rows, and never asks for anything. One policy holds one bit per service (10,000 services and 1,000 policies: 1.3 MB).
 */
export class PolicyIndex {
  readonly #services = new Membership({ isSmall: true });
  /** Every service by id. */
  readonly #ordered: ServiceSlot[] = [];
  readonly #policies = new Map<string, ServicePolicy>();
  readonly #identitySide = new SelectedBy<ServicePolicy>((policy) => policy.identities);
  readonly #routers = new Map<string, Attributed>();
  readonly #checks = new Map<string, SelectedCheck>();
  /** By policy, where it was asked for since checks or the policy changed last. */
  readonly #checksOf = new Map<string, readonly PostureCheck[]>();
  readonly #identityRouters = new RouterAccess();
  readonly #serviceRouters = new RouterAccess();

  static build(rows: PolicyRows): PolicyIndex {
    const index = new PolicyIndex();
    for (const _ of index.#fill(rows));
    return index;
  }

  /** Like {@link build}, with pauses: ten thousand services with a thousand policies take longer than others should wait. */
  static async buildInTurns(rows: PolicyRows, slices: Slices): Promise<PolicyIndex> {
    const index = new PolicyIndex();
    for (const _ of index.#fill(rows)) if (slices.isDue) await slices.pause();
    return index;
  }

  *#fill(rows: PolicyRows): Generator<void> {
    for (const router of rows.routers) this.#routers.set(router.id, router);
    for (const check of rows.postureChecks) this.putPostureCheck(check);
    for (const service of rows.services) yield this.putService(service);
    for (const policy of rows.servicePolicies) yield this.putServicePolicy(policy);
    for (const policy of rows.edgeRouterPolicies) yield this.putEdgeRouterPolicy(policy);
    for (const policy of rows.serviceEdgeRouterPolicies) yield this.putServiceEdgeRouterPolicy(policy);
  }

  putService(service: Attributed): void {
    const isNew = this.#services.slotOf(service.id) === undefined;
    this.#services.put(service);
    const slot = this.#services.slotOf(service.id);
    if (isNew && slot !== undefined) this.#ordered.splice(this.#placeOf(service.id), 0, { slot, id: service.id });
  }

  removeService(id: string): void {
    if (this.#services.slotOf(id) === undefined) return;
    this.#services.remove(id);
    this.#ordered.splice(this.#placeOf(id), 1);
  }

  putRouter(router: Attributed): void {
    this.#routers.set(router.id, router);
    this.#identityRouters.putRouter(router);
    this.#serviceRouters.putRouter(router);
  }

  removeRouter(id: string): void {
    this.#routers.delete(id);
    this.#identityRouters.removeRouter(id);
    this.#serviceRouters.removeRouter(id);
  }

  putPostureCheck(check: SelectedCheck): void {
    this.#checksOf.clear();
    this.#checks.set(check.id, check);
  }

  removePostureCheck(id: string): void {
    this.#checksOf.clear();
    this.#checks.delete(id);
  }

  putServicePolicy(policy: ServicePolicy): void {
    this.removeServicePolicy(policy.id);
    this.#policies.set(policy.id, policy);
    this.#identitySide.add(policy);
    this.#services.setPolicy({ policyId: policy.id, selector: policy.services, semantic: policy.semantic });
  }

  removeServicePolicy(id: string): void {
    const policy = this.#policies.get(id);
    if (!policy) return;
    this.#policies.delete(id);
    this.#services.dropPolicy(id);
    this.#checksOf.delete(id);
    this.#identitySide.remove(policy);
  }

  putEdgeRouterPolicy(policy: RouterPolicy): void {
    this.#identityRouters.putPolicy(policy, this.#routers.values());
  }

  removeEdgeRouterPolicy(id: string): void {
    this.#identityRouters.removePolicy(id);
  }

  putServiceEdgeRouterPolicy(policy: RouterPolicy): void {
    this.#serviceRouters.putPolicy(policy, this.#routers.values());
  }

  removeServiceEdgeRouterPolicy(id: string): void {
    this.#serviceRouters.removePolicy(id);
  }

  servicePolicy(id: string): ServicePolicy | undefined {
    return this.#policies.get(id);
  }

  /** The service policies that select the identity. */
  policiesOf(identity: Attributed): ServicePolicy[] {
    return this.#identitySide.of(identity);
  }

  /** The service policies that select the service. */
  policiesOfService(serviceId: string): ServicePolicy[] {
    return this.#selecting(this.#policies.values(), serviceId);
  }

  /** Ids of the services that the identity may dial or bind, sorted. */
  servicesOf(identity: Attributed): string[] {
    return this.grantedTo(identity).ids();
  }

  /** What the identity may dial and bind. */
  grantedTo(identity: Attributed): GrantedServices {
    const { capacity } = this.#services;
    const granted = { Dial: new Bitset(capacity), Bind: new Bitset(capacity) };
    for (const { id, type } of this.policiesOf(identity)) granted[type].add(this.#services.slotsOf(id));
    const either = new Bitset(capacity);
    either.add(granted.Dial);
    either.add(granted.Bind);
    return new GrantedServices(this.#ordered, (id) => this.#services.slotOf(id), granted, either);
  }

  /** Those of the policies that select the service. */
  #selecting(policies: Iterable<ServicePolicy>, serviceId: string): ServicePolicy[] {
    const slot = this.#services.slotOf(serviceId);
    if (slot === undefined) return [];
    return [...policies].filter(({ id }) => this.#services.slotsOf(id).has(slot));
  }

  /** Where the id stands, or would stand, among the ordered services. */
  #placeOf(id: string): number {
    let low = 0;
    let high = this.#ordered.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ordered[middle]?.id ?? "") < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** What the identity may do with the service; undefined when nothing. */
  accessTo(identity: Attributed, serviceId: string): ServiceAccess | undefined {
    const policies = this.#selecting(this.policiesOf(identity), serviceId);
    if (policies.length === 0) return undefined;
    const types = new Set(policies.map((policy) => policy.type));
    const permissions = (["Bind", "Dial"] as const).filter((type) => types.has(type));
    return { serviceId, permissions, policyIds: policies.map((policy) => policy.id).sort() };
  }

  /** The posture checks that a service policy asks for, by id. */
  checksOf(policy: ServicePolicy): readonly PostureCheck[] {
    const { postureChecks: selector } = policy;
    if (!selector.all && selector.attrs.length === 0 && selector.ids.length === 0) return [];
    const known = this.#checksOf.get(policy.id);
    if (known !== undefined) return known;
    const checks = [...this.#checks.values()]
      .filter((each) => matches(selector, policy.semantic, each))
      .map(({ check }) => check)
      .sort((a, b) => (a.id < b.id ? -1 : 1));
    if (this.#policies.get(policy.id) === policy) this.#checksOf.set(policy.id, checks);
    return checks;
  }

  /** Ids of the services that a policy selects, sorted. */
  servicesOfPolicy(id: string): string[] {
    return [...this.#services.membersOf(id)].sort();
  }

  /** The service policies that ask for posture checks. */
  policiesWithChecks(): ServicePolicy[] {
    if (this.#checks.size === 0) return [];
    return [...this.#policies.values()].filter((policy) => this.checksOf(policy).length > 0);
  }

  /** Is there any posture check? */
  get hasChecks(): boolean {
    return this.#checks.size > 0;
  }

  /** The service policies of a type that link identity and service. */
  granting(identity: Attributed, serviceId: string, type: Permission): ServicePolicy[] {
    return this.#selecting(this.policiesOf(identity), serviceId).filter((policy) => policy.type === type);
  }

  /** Those of {@link granting} that count for a tunneling router: it reports no posture, so a policy with posture checks grants it nothing. */
  grantingToRouter(identity: Attributed, serviceId: string, type: Permission): ServicePolicy[] {
    return this.granting(identity, serviceId, type).filter((policy) => this.checksOf(policy).length === 0);
  }

  /** Ids of the service policies that ask for the posture check. */
  policiesWithPostureCheck(checkId: string): string[] {
    const check = this.#checks.get(checkId);
    if (!check) return [];
    return [...this.#policies.values()]
      .filter((policy) => matches(policy.postureChecks, policy.semantic, check))
      .map((policy) => policy.id);
  }

  /** Ids of the edge routers that the identity may use, sorted. */
  routersOfIdentity(identity: Attributed): string[] {
    return [...this.#identityRouters.routersOf(identity)].sort();
  }

  /** Ids of the edge routers that may carry the service, sorted. */
  routersOfService(serviceId: string): string[] {
    const service = this.#services.entity(serviceId);
    return service === undefined ? [] : [...this.#serviceRouters.routersOf(service)].sort();
  }

  /** The edge-router policies that select the identity. */
  edgeRouterPoliciesOf(identity: Attributed): RouterPolicy[] {
    return this.#identityRouters.policiesOf(identity);
  }

  /** The service-edge-router policies that select the service. */
  serviceEdgeRouterPoliciesOf(serviceId: string): RouterPolicy[] {
    const service = this.#services.entity(serviceId);
    return service === undefined ? [] : this.#serviceRouters.policiesOf(service);
  }

  /** Ids of the edge routers over which the identity may reach the service, sorted. */
  routersFor(identity: Attributed, serviceId: string): string[] {
    const carrying = new Set(this.routersOfService(serviceId));
    return this.routersOfIdentity(identity).filter((id) => carrying.has(id));
  }
}

/** A service and its place in the bit sets. */
interface ServiceSlot {
  readonly slot: number;
  readonly id: string;
}

/** The services that an identity may dial or bind, as the index has them at this moment: ask at once, and do not keep it across a wait. */
class GrantedServices {
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
