import type { Kysely } from "kysely";
import { PolicyIndex } from "../policy/policy-index.ts";
import type { Attributed, RoleSelector, Semantic } from "../policy/selector.ts";
import { ServiceUpdates, type Stamp } from "../policy/service-updates.ts";
import type { ChangeLog, ChangeRow } from "./change-log.ts";
import { attributed, loadPolicyRows, routerPolicies, servicePolicies, services } from "./policy-rows.ts";
import type { Database, PolicyBefore } from "./schema.ts";

/** The store, as far as the mirror reads it. */
export interface MirroredStore {
  readonly db: Kysely<Database>;
  readonly changes: Pick<ChangeLog, "subscribe" | "caughtUp" | "position">;
}

/**
 * Keeps a policy index in step with the database: loads it once, follows the change log, and loads it anew when the log has a gap. Also keeps the times of the last
 * service changes.
 */
export class PolicyMirror {
  readonly #store: MirroredStore;
  readonly #now: () => Date;
  #beganAt: Date;
  #index = new PolicyIndex();
  #updates = new ServiceUpdates();
  #started: Promise<void> | undefined;
  #unsubscribe: (() => void) | undefined;

  constructor(store: MirroredStore, now: () => Date = () => new Date()) {
    this.#store = store;
    this.#now = now;
    this.#beganAt = now();
  }

  /** Loads and follows until {@link stop}. Questions start it, too, and wait for it. */
  start(): Promise<void> {
    this.#started ??= this.#start().catch((error: unknown) => {
      this.stop();
      throw error;
    });
    return this.#started;
  }

  stop(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#started = undefined;
  }

  /** The index with everything in it that was committed before this call. */
  async fresh(): Promise<PolicyIndex> {
    await this.start();
    await this.#store.changes.caughtUp();
    return this.#index;
  }

  /**
   * When the services of the identity, or what it may do with them, last changed. Clients only ask whether the answer differs from the last one.
   * @param since when the asker's session began: counts when nothing has changed since we began to follow
   */
  async lastServiceChange(identity: Attributed, since: Date): Promise<Date> {
    const index = await this.fresh();
    this.#updates.advance(this.#store.changes.position);
    const policyIds = index.policiesOf(identity).map((policy) => policy.id);
    return this.#updates.lastChange(identity, policyIds, since > this.#beganAt ? since : this.#beganAt);
  }

  async #start(): Promise<void> {
    // Subscribed before loading: what is committed meanwhile is looked at again after it, so there is no gap, and twice does no harm.
    let open: () => void = () => undefined;
    const loaded = new Promise<void>((resolve) => {
      open = resolve;
    });
    this.#unsubscribe = this.#store.changes.subscribe({
      name: "policy mirror",
      onChanges: async (rows) => {
        await loaded;
        await this.#apply(rows);
      },
      onReset: async () => {
        await loaded;
        await this.#load();
      },
    });
    try {
      await this.#load();
    } finally {
      open();
    }
  }

  async #load(): Promise<void> {
    this.#beganAt = this.#now();
    this.#index = await this.#store.db
      .transaction()
      .setIsolationLevel("repeatable read")
      .execute(async (trx) => PolicyIndex.build(await loadPolicyRows(trx)));
    this.#updates = new ServiceUpdates();
  }

  async #apply(rows: readonly ChangeRow[]): Promise<void> {
    const of = (kind: string) => rows.filter((row) => row.kind === kind);
    await this.#applyRouters(of("router"));
    await this.#applyChecks(of("posture_check"));
    await this.#applyServices(of("service"));
    await this.#applyServicePolicies(of("service_policy"));
    await this.#applyRouterPolicies(of("edge_router_policy"), of("service_edge_router_policy"));
    for (const row of [...of("identity"), ...of("identity_service_config")])
      this.#updates.identityChanged(row.key, stampOf(row));
  }

  async #applyRouters(rows: readonly ChangeRow[]): Promise<void> {
    if (rows.length === 0) return;
    const found = byId(await attributed(this.#store.db, "router", keysOf(rows)));
    for (const id of keysOf(rows)) {
      const router = found.get(id);
      if (router) this.#index.putRouter(router);
      else this.#index.removeRouter(id);
    }
  }

  async #applyChecks(rows: readonly ChangeRow[]): Promise<void> {
    if (rows.length === 0) return;
    const found = byId(await attributed(this.#store.db, "posture_check", keysOf(rows)));
    for (const row of rows) {
      const before = this.#index.policiesWithPostureCheck(row.key);
      const check = found.get(row.key);
      if (check) this.#index.putPostureCheck(check);
      else this.#index.removePostureCheck(row.key);
      this.#updates.serviceChanged([...before, ...this.#index.policiesWithPostureCheck(row.key)], stampOf(row));
    }
  }

  async #applyServices(rows: readonly ChangeRow[]): Promise<void> {
    if (rows.length === 0) return;
    const found = byId(await services(this.#store.db, keysOf(rows)));
    const policiesOf = (id: string) => this.#index.policiesOfService(id).map((policy) => policy.id);
    for (const row of rows) {
      const before = policiesOf(row.key);
      const service = found.get(row.key);
      if (service) this.#index.putService(service);
      else this.#index.removeService(row.key);
      this.#updates.serviceChanged([...before, ...policiesOf(row.key)], stampOf(row));
    }
  }

  async #applyServicePolicies(rows: readonly ChangeRow[]): Promise<void> {
    if (rows.length === 0) return;
    const found = byId(await servicePolicies(this.#store.db, keysOf(rows)));
    for (const row of rows) {
      const concerned: { selector: RoleSelector; semantic: Semantic }[] = [];
      const logged = row.before as PolicyBefore | null;
      if (logged?.sides.identity) concerned.push({ selector: logged.sides.identity, semantic: logged.semantic });
      const old = this.#index.servicePolicy(row.key);
      if (old) concerned.push({ selector: old.identities, semantic: old.semantic });
      const policy = found.get(row.key);
      if (policy) {
        this.#index.putServicePolicy(policy);
        concerned.push({ selector: policy.identities, semantic: policy.semantic });
      } else {
        this.#index.removeServicePolicy(row.key);
        this.#updates.forgetPolicy(row.key);
      }
      this.#updates.policyChanged(concerned, stampOf(row));
    }
  }

  async #applyRouterPolicies(edge: readonly ChangeRow[], service: readonly ChangeRow[]): Promise<void> {
    const { db } = this.#store;
    if (edge.length > 0) {
      const found = byId(await routerPolicies(db, "edge_router_policy", "identity", keysOf(edge)));
      for (const id of keysOf(edge)) {
        const policy = found.get(id);
        if (policy) this.#index.putEdgeRouterPolicy(policy);
        else this.#index.removeEdgeRouterPolicy(id);
      }
    }
    if (service.length > 0) {
      const found = byId(await routerPolicies(db, "service_edge_router_policy", "service", keysOf(service)));
      for (const id of keysOf(service)) {
        const policy = found.get(id);
        if (policy) this.#index.putServiceEdgeRouterPolicy(policy);
        else this.#index.removeServiceEdgeRouterPolicy(id);
      }
    }
  }
}

function keysOf(rows: readonly ChangeRow[]): string[] {
  return [...new Set(rows.map((row) => row.key))];
}

function stampOf(row: ChangeRow): Stamp {
  return { xid: BigInt(row.xid), at: row.at };
}

function byId<T extends { readonly id: string }>(entities: readonly T[]): Map<string, T> {
  return new Map(entities.map((entity) => [entity.id, entity]));
}
