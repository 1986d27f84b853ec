import { sql } from "kysely";
import type { PolicyIndex } from "../../policy/policy-index.ts";
import type { EdgeRouter, Named, RouterFacts } from "../../policy/why/facts.ts";
import { likely } from "../../store/driver/statement.ts";
import type { ModelContext } from "../context.ts";
import { namesOf } from "../entity.ts";
import type { IdentityRow } from "../identity/identities.ts";
import type { ServiceRow } from "../network/services.ts";
import { routersOfIdentity, routersOfService } from "../policy/access.ts";
import type { NetworkNow } from "./network-now.ts";

const MAX_SHOWN = 5;

/** Which routers the index gives each side; still without names. */
export interface RoutedIds {
  readonly ofIdentity: readonly string[];
  readonly ofService: readonly string[];
  readonly common: readonly string[];
  readonly identityPolicies: readonly string[];
  readonly servicePolicies: readonly string[];
}

/** To be asked at once: the index must not be kept across a wait. */
export function routedIds(index: PolicyIndex, identity: IdentityRow, service: ServiceRow): RoutedIds {
  const common = index.routersFor(identity, service.id);
  const ids = (policies: readonly { readonly id: string }[]) => policies.slice(0, MAX_SHOWN).map(({ id }) => id);
  return {
    ofIdentity: index.routersOfIdentity(identity),
    ofService: index.routersOfService(service.id),
    // A tunneling router dials over itself.
    common: identity.type_id === "Router" ? common.filter((id) => id === identity.id) : common,
    identityPolicies: ids(index.edgeRouterPoliciesOf(identity)),
    servicePolicies: ids(index.serviceEdgeRouterPoliciesOf(service.id)),
  };
}

/** Of the common routers, how they are now. */
export function commonNow(network: NetworkNow, { common }: RoutedIds): Omit<EdgeRouter, "name">[] {
  return common.map((id) => {
    const state = network.routerState(id);
    const hasListener = Object.keys(state?.supportedProtocols ?? {}).length > 0;
    return { id, isOnline: state?.isOnline === true, hasListener };
  });
}

export async function routerFacts(
  ctx: ModelContext,
  routed: RoutedIds,
  common: readonly Omit<EdgeRouter, "name">[],
  { identity, service }: { readonly identity: IdentityRow; readonly service: ServiceRow },
): Promise<RouterFacts> {
  const { db } = ctx.store;
  const { ofIdentity, ofService, identityPolicies, servicePolicies } = routed;
  const [routers, ofIdentities, ofServices, disabledOfIdentity, disabledOfService] = await Promise.all([
    routerNames(ctx, new Set([...ofIdentity, ...ofService])),
    namesOf(db, "edge_router_policy", identityPolicies),
    namesOf(db, "service_edge_router_policy", servicePolicies),
    ofIdentity.length > 0 ? [] : disabledRouters(ctx, await routersOfIdentity(db, identity, "r")),
    ofService.length > 0 ? [] : disabledRouters(ctx, await routersOfService(db, service, "r")),
  ]);
  const named = (names: ReadonlyMap<string, string>) => (id: string) => ({ id, name: names.get(id) ?? id });
  return {
    ofIdentity: {
      policies: identityPolicies.map(named(ofIdentities)),
      routers: ofIdentity.map(named(routers)),
      disabled: disabledOfIdentity,
    },
    ofService: {
      policies: servicePolicies.map(named(ofServices)),
      routers: ofService.map(named(routers)),
      disabled: disabledOfService,
    },
    common: common.map((router) => ({ ...router, ...named(routers)(router.id) })),
  };
}

async function routerNames(ctx: ModelContext, ids: ReadonlySet<string>): Promise<ReadonlyMap<string, string>> {
  const { rows } = await sql<Named>`SELECT id, name FROM router
    WHERE id = ANY (${likely([...ids])}::text[])`.execute(ctx.store.db);
  return new Map(rows.map(({ id, name }) => [id, name]));
}

async function disabledRouters(ctx: ModelContext, isSelected: Awaited<ReturnType<typeof routersOfIdentity>>) {
  const { rows } = await sql<Named>`SELECT r.id, r.name FROM router r
    WHERE r.kind = 'edge' AND r.disabled AND ${isSelected} ORDER BY r.name LIMIT ${MAX_SHOWN}`.execute(ctx.store.db);
  return rows;
}
