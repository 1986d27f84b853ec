import { notFound } from "@sallyport/api";
import type { Permission } from "@sallyport/wire";
import type { AccessFacts, DialFacts } from "../../policy/why/facts.ts";
import { usableRouters } from "../../policy/why/routers.ts";
import type { ModelContext } from "../context.ts";
import type { IdentityRow } from "../identity/identities.ts";
import type { Model } from "../model.ts";
import type { ServiceRow } from "../network/services.ts";
import { authenticationFacts, liveSessions } from "./authentication-facts.ts";
import { bindPolicies, hostingFacts, shownBinding } from "./hosting-facts.ts";
import type { NetworkNow } from "./network-now.ts";
import { judgedPosture, nearPolicies, policyFacts, postureFacts } from "./policy-facts.ts";
import { commonNow, routedIds, routerFacts, shownRouters } from "./router-facts.ts";
import { ShownNames } from "./shown-names.ts";

interface AccessQuestion {
  readonly identity: IdentityRow;
  readonly service: ServiceRow;
  readonly type: Permission;
  /** Asked in this API session; every live one of the identity when absent. */
  readonly apiSessionId?: string;
  /** What is remembered of its dials, at all controllers. */
  readonly dials: Promise<DialFacts>;
}

/**
 * Everything that decides whether an identity can dial, or host, a service, as it is now: what policy and posture say, by the index that decides dials, and what
 * the store and the running network have. It changes nothing. Source: docs/why.md.
 */
export async function accessFacts(
  ctx: ModelContext,
  model: Model,
  network: NetworkNow,
  { identity, service, type, apiSessionId, dials }: AccessQuestion,
): Promise<AccessFacts> {
  const { db } = ctx.store;
  await model.posture.ready([identity.id]);
  const sessions = await liveSessions(db, model.apiSessions, identity.id, apiSessionId);
  // From here to the next wait, everything is of one state of the index.
  const index = await model.policy.current();
  const subjects = { identity, service, type };
  const near = nearPolicies(index, subjects);
  const routed = routedIds(index, identity, service);
  const binding = bindPolicies(index, service.id);
  const common = commonNow(network, routed);
  const isRouter = identity.type_id === "Router";
  const entries = usableRouters(common, isRouter);
  const doRoutersCheck =
    entries.length > 0 && entries.every(({ id }) => network.routerState(id)?.checksPosture === true);
  const posture = judgedPosture(ctx, index, near.granting, {
    ...subjects,
    posture: model.posture,
    sessions,
    doRoutersCheck,
  });
  const policies = [...near.granting, ...near.ofOtherType, ...near.missingIdentity, ...near.missingService];
  const shown = ShownNames.read(db, {
    service_policy: [...policies.map(({ id }) => id), ...shownBinding(binding)],
    edge_router_policy: routed.identityPolicies,
    service_edge_router_policy: routed.servicePolicies,
    router: shownRouters(routed),
  });
  const [names, authentication, routers, hosting] = await Promise.all([
    shown,
    authenticationFacts(ctx, identity, sessions),
    routerFacts(ctx, routed, common, shown, subjects),
    hostingFacts(ctx, { service, entries, binding, network, names: shown }),
  ]);
  return {
    at: ctx.now().getTime(),
    type,
    identity: { id: identity.id, name: identity.name, attrs: identity.attrs, isAdmin: identity.is_admin, isRouter },
    service: {
      id: service.id,
      name: service.name,
      attrs: service.attrs,
      encryptionRequired: service.encryption_required,
    },
    authentication,
    policies: await policyFacts(ctx, near, names, subjects),
    posture: postureFacts(posture, names),
    routers,
    hosting,
    dials: await dials,
  };
}

/** The identity and the service of a question, by id or name. @throws ApiError 404 */
export async function accessSubjects(
  ctx: ModelContext,
  model: Model,
  identityIdOrName: string,
  serviceIdOrName: string,
): Promise<{ readonly identity: IdentityRow; readonly service: ServiceRow }> {
  const { db } = ctx.store;
  const [identity, service] = await Promise.all([
    model.identities.findByIdOrName(db, identityIdOrName),
    model.services.findByIdOrName(db, serviceIdOrName),
  ]);
  if (identity === undefined) throw notFound("identity", identityIdOrName);
  if (service === undefined) throw notFound("service", serviceIdOrName);
  return { identity, service };
}
