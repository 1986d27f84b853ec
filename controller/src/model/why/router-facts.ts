import { sql } from "kysely";
import type { PolicyIndex } from "../../policy/policy-index.ts";
import type { EdgeRouter, Named, RouterFacts } from "../../policy/why/facts.ts";
import type { ModelContext } from "../context.ts";
import type { IdentityRow } from "../identity/identities.ts";
import type { ServiceRow } from "../network/services.ts";
import { routersOfIdentity, routersOfService } from "../policy/access.ts";
import type { NetworkNow } from "./network-now.ts";
import type { ShownNames } from "./shown-names.ts";

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

/** Ids of the routers that an answer names. */
export function shownRouters({ ofIdentity, ofService, common }: RoutedIds): string[] {
  return [...ofIdentity.slice(0, MAX_SHOWN), ...ofService.slice(0, MAX_SHOWN), ...common];
}

/** @param names those of {@link shownRouters} and of the policies are read */
export async function routerFacts(
  ctx: ModelContext,
  routed: RoutedIds,
  common: readonly Omit<EdgeRouter, "name">[],
  names: Promise<ShownNames>,
  { identity, service }: { readonly identity: IdentityRow; readonly service: ServiceRow },
): Promise<RouterFacts> {
  const { db } = ctx.store;
  const { ofIdentity, ofService, identityPolicies, servicePolicies } = routed;
  const [known, disabledOfIdentity, disabledOfService] = await Promise.all([
    names,
    ofIdentity.length > 0 ? [] : routersOfIdentity(db, identity, "r").then((of) => disabledRouters(ctx, of)),
    ofService.length > 0 ? [] : routersOfService(db, service, "r").then((of) => disabledRouters(ctx, of)),
  ]);
  const router = (id: string) => known.of("router", id);
  return {
    ofIdentity: {
      policies: identityPolicies.map((id) => known.of("edge_router_policy", id)),
      routers: ofIdentity.map(router),
      disabled: disabledOfIdentity,
    },
    ofService: {
      policies: servicePolicies.map((id) => known.of("service_edge_router_policy", id)),
      routers: ofService.map(router),
      disabled: disabledOfService,
    },
    common: common.map((each) => ({ ...each, ...router(each.id) })),
  };
}

async function disabledRouters(ctx: ModelContext, isSelected: Awaited<ReturnType<typeof routersOfIdentity>>) {
  const { rows } = await sql<Named>`SELECT r.id, r.name FROM router r
    WHERE r.kind = 'edge' AND r.disabled AND ${isSelected} ORDER BY r.name LIMIT ${MAX_SHOWN}`.execute(ctx.store.db);
  return rows;
}
