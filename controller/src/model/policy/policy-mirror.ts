import { TimeSlice } from "@sallyport/async";
import { sql } from "kysely";
import { PolicyIndex, type PolicyRows, type ServicePolicy } from "../../policy/policy-index.ts";
import type { RouterPolicy } from "../../policy/router-access.ts";
import type { Attributed, RoleSelector, Semantic } from "../../policy/selector.ts";
import { ServiceUpdates, type Stamp } from "../../policy/service-updates.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import type { ChangeKind, PolicyBefore } from "../../store/changes/logged-write.ts";
import { likely } from "../../store/driver/statement.ts";
import type { Db, ModelContext } from "../context.ts";
import { selectedChecks } from "../posture/posture-checks.ts";
import type { Grant } from "./access.ts";
import {
  EDGE_ROUTER_POLICY,
  Policies,
  type PolicyKind,
  type PolicyRecord,
  SERVICE_EDGE_ROUTER_POLICY,
  SERVICE_POLICY,
  selectorOf,
} from "./policies.ts";

/**
 * The policies and the service side of the store in memory, kept by the change log. Every question waits until all that was committed
 * before it is in, so the index is never behind what the caller may have seen (docs/protocol/policy.md "Where it is evaluated").
 */
export class PolicyMirror {
  readonly #ctx: ModelContext;
  #updates = new ServiceUpdates();
  #startedAt: Date;
  #index = new PolicyIndex();
  #loaded: Promise<void> | undefined;
  #unsubscribe: (() => void) | undefined;

  /** Called with the seconds that a batch of changes took. */
  onUpdate?: (seconds: number) => void;

  constructor(ctx: ModelContext) {
    this.#ctx = ctx;
    this.#startedAt = ctx.now();
  }

  /** The index with every change that was committed before the call. Do not keep it across a wait. */
  async current(): Promise<PolicyIndex> {
    await this.#start();
    await this.#ctx.store.changes.caughtUp();
    // A reload may have failed meanwhile: then the index in memory is old.
    await this.#start();
    return this.#index;
  }

  /** The service policies of an identity, by what they grant. */
  async grantsOf(identity: Attributed): Promise<Grant[]> {
    const index = await this.current();
    return index.policiesOf(identity).map(({ type, semantic, services }) => ({ type, semantic, services }));
  }

  /**
   * When the identity's services last changed, the same from every controller: the start of a controller counts as a change for all identities, because it does
   * not know the changes before. While that is not in yet, the later of our start and `since`.
   */
  async lastChange(identity: Attributed, since: Date): Promise<Date> {
    // A stamp whose transaction began after one that is still open counts only once a later look sees both ended.
    if (this.#updates.isWaiting) await this.#ctx.store.changes.wake();
    const index = await this.current();
    this.#updates.advance(this.#ctx.store.changes.position);
    const policyIds = index.policiesOf(identity).map((policy) => policy.id);
    return this.#updates.lastChange(identity, policyIds, since > this.#startedAt ? since : this.#startedAt);
  }

  /** Reloads everything: for when memory was found to differ from the store. */
  async renew(): Promise<void> {
    this.close();
    this.#forgetUpdates();
    await this.current();
  }

  /** Ends the subscription; a later question starts it again. */
  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#loaded = undefined;
  }

  async #start(): Promise<void> {
    this.#unsubscribe ??= this.#ctx.store.changes.subscribe({
      name: "policy",
      onChanges: async (rows, snapshot) => {
        await this.#loaded;
        const began = performance.now();
        await this.#apply(rows);
        this.onUpdate?.((performance.now() - began) / 1_000);
        this.#updates.advance(snapshot);
      },
      onReset: async () => {
        await this.#loaded?.catch(() => undefined);
        this.#forgetUpdates();
        // A question asked meanwhile waits for it, and reloads if it fails: no answer comes from the old index.
        await this.#load();
      },
    });
    await (this.#loaded ?? this.#load());
  }

  /** Missed changes may concern any identity: every client lists its services once, of whichever controller it asks. */
  #forgetUpdates(): void {
    this.#startedAt = this.#ctx.now();
    this.#updates = new ServiceUpdates();
  }

  /** Reloads everything. When loads overlap, the one that began last counts: another may have read older data. */
  #load(): Promise<void> {
    const loading: Promise<void> = this.#build().then(
      (index) => {
        if (this.#loaded === loading) this.#index = index;
      },
      (error: unknown) => {
        if (this.#loaded === loading) this.#loaded = undefined;
        throw error;
      },
    );
    this.#loaded = loading;
    return loading;
  }

  async #build(): Promise<PolicyIndex> {
    // Before the rows are read: no change between the two goes unstamped.
    await appendChange(this.#ctx.store.db, { kind: ALL_SERVICES, key: "all", op: "update" });
    const rows = await this.#ctx.store.db
      .transaction()
      .setIsolationLevel("repeatable read")
      .execute((trx) => loadRows(this.#ctx, trx));
    return PolicyIndex.buildInTurns(rows, new TimeSlice());
  }

  async #apply(rows: readonly ChangeRow[]): Promise<void> {
    const { db } = this.#ctx.store;
    const byKind = Map.groupBy(rows, (row) => row.kind as ChangeKind);
    const keys = (kind: ChangeKind) => [...new Set((byKind.get(kind) ?? []).map((row) => row.key))];
    const stampOf = (kind: ChangeKind, key: string): Stamp => {
      const row = (byKind.get(kind) ?? []).findLast((each) => each.key === key);
      return { xid: BigInt(row?.xid ?? 0), at: row?.at ?? this.#ctx.now() };
    };

    const withCheck = (id: string) => this.#index.policiesWithPostureCheck(id);
    const askedBefore = new Map(keys("posture_check").map((id) => [id, withCheck(id)]));
    // Entities first: a policy that names one made in the same transaction finds it.
    replace(keys("router"), await attributed(db, "router", keys("router")), {
      put: (router) => this.#index.putRouter(router),
      remove: (id) => this.#index.removeRouter(id),
    });
    replace(keys("posture_check"), await selectedChecks(db, keys("posture_check")), {
      put: (check) => this.#index.putPostureCheck(check),
      remove: (id) => this.#index.removePostureCheck(id),
    });
    for (const id of keys("posture_check")) {
      const concerned = new Set([...(askedBefore.get(id) ?? []), ...withCheck(id)]);
      this.#updates.serviceChanged(concerned, stampOf("posture_check", id));
    }
    const services = await attributed(db, "service", keys("service"));
    const policyIds = (id: string) => this.#index.policiesOfService(id).map((policy) => policy.id);
    const selectedBefore = new Map(keys("service").map((id) => [id, policyIds(id)]));
    replace(keys("service"), services, {
      put: (service) => this.#index.putService(service),
      remove: (id) => this.#index.removeService(id),
    });
    for (const id of keys("service")) {
      const concerned = new Set([...(selectedBefore.get(id) ?? []), ...policyIds(id)]);
      this.#updates.serviceChanged(concerned, stampOf("service", id));
    }

    for (const id of keys("service_policy")) {
      const old = this.#index.servicePolicy(id);
      const [record] = await policiesOf(this.#ctx, SERVICE_POLICY, db, [id]);
      const now = record === undefined ? undefined : servicePolicy(record);
      if (now === undefined) {
        this.#index.removeServicePolicy(id);
        this.#updates.forgetPolicy(id);
      } else this.#index.putServicePolicy(now);
      const selectors: { selector: RoleSelector; semantic: Semantic }[] = [old, now].flatMap((each) =>
        each === undefined ? [] : [{ selector: each.identities, semantic: each.semantic }],
      );
      // States between the two that the index knew, when the policy changed more than once.
      for (const { key, before } of byKind.get("service_policy") ?? []) {
        const between = key === id ? (before as PolicyBefore | null) : null;
        const selector = between?.sides.identity;
        if (between && selector) selectors.push({ selector, semantic: between.semantic });
      }
      this.#updates.policyChanged(selectors, stampOf("service_policy", id));
    }
    const ofIdentities = await policiesOf(this.#ctx, EDGE_ROUTER_POLICY, db, keys("edge_router_policy"));
    replace(keys("edge_router_policy"), ofIdentities, {
      put: (record) => this.#index.putEdgeRouterPolicy(routerPolicy(record, "identity")),
      remove: (id) => this.#index.removeEdgeRouterPolicy(id),
    });
    const ofServices = await policiesOf(this.#ctx, SERVICE_EDGE_ROUTER_POLICY, db, keys("service_edge_router_policy"));
    replace(keys("service_edge_router_policy"), ofServices, {
      put: (record) => this.#index.putServiceEdgeRouterPolicy(routerPolicy(record, "service")),
      remove: (id) => this.#index.removeServiceEdgeRouterPolicy(id),
    });
    for (const key of keys(ALL_SERVICES)) this.#updates.everythingChanged(stampOf(ALL_SERVICES, key));
    for (const kind of ["identity", "identity_service_config", "posture_state"] as const) {
      for (const id of keys(kind)) this.#updates.identityChanged(id, stampOf(kind, id));
    }
  }
}

/** Of the row of the change log that says that the services of all identities may look different now. */
const ALL_SERVICES: ChangeKind = "service_updates";

/** Puts what is there and removes what is not, of the entities that changed. */
function replace<T extends { readonly id: string }>(
  keys: readonly string[],
  present: readonly T[],
  into: { put(entity: T): void; remove(id: string): void },
): void {
  const ids = new Set(present.map((entity) => entity.id));
  for (const entity of present) into.put(entity);
  for (const key of keys) if (!ids.has(key)) into.remove(key);
}

async function loadRows(ctx: ModelContext, db: Db): Promise<PolicyRows> {
  const all = async (kind: PolicyKind) => {
    const { rows } = await sql<{ id: string }>`SELECT id FROM ${sql.table(kind.table)}`.execute(db);
    const ids = rows.map((row) => row.id);
    return policiesOf(ctx, kind, db, ids);
  };
  return {
    services: await attributed(db, "service"),
    routers: await attributed(db, "router"),
    postureChecks: await selectedChecks(db),
    servicePolicies: (await all(SERVICE_POLICY)).map(servicePolicy),
    edgeRouterPolicies: (await all(EDGE_ROUTER_POLICY)).map((record) => routerPolicy(record, "identity")),
    serviceEdgeRouterPolicies: (await all(SERVICE_EDGE_ROUTER_POLICY)).map((record) => routerPolicy(record, "service")),
  };
}

/** Rows of one kind, all or those with the ids. Only enabled edge routers are offered to clients. */
async function attributed(db: Db, table: "service" | "router", ids?: readonly string[]): Promise<Attributed[]> {
  if (ids?.length === 0) return [];
  const usable = table === "router" ? sql`kind = 'edge' AND NOT disabled` : sql`true`;
  const wanted = ids === undefined ? sql`true` : sql`id = ANY (${likely(ids)}::text[])`;
  const { rows } = await sql<Attributed>`
    SELECT id, attrs FROM ${sql.table(table)} WHERE ${usable} AND ${wanted}`.execute(db);
  return rows;
}

function policiesOf(ctx: ModelContext, kind: PolicyKind, db: Db, ids: readonly string[]): Promise<PolicyRecord[]> {
  return new Policies(ctx, kind).byIds(db, ids);
}

function servicePolicy(record: PolicyRecord): ServicePolicy {
  return {
    id: record.id,
    semantic: record.semantic,
    type: record.type ?? "Dial",
    identities: selectorOf(record, "identity"),
    services: selectorOf(record, "service"),
    postureChecks: selectorOf(record, "posture_check"),
  };
}

function routerPolicy(record: PolicyRecord, from: "identity" | "service"): RouterPolicy {
  return {
    id: record.id,
    semantic: record.semantic,
    from: selectorOf(record, from),
    routers: selectorOf(record, "router"),
  };
}
