import { ApiSessions } from "./api-sessions.ts";
import { Authenticators } from "./authenticators.ts";
import { Configs } from "./configs.ts";
import type { ModelContext } from "./context.ts";
import { Enrollments } from "./enrollments.ts";
import { Identities } from "./identities.ts";
import { EDGE_ROUTER_POLICY, Policies, SERVICE_EDGE_ROUTER_POLICY, SERVICE_POLICY } from "./policies.ts";
import { PolicyMirror } from "./policy-mirror.ts";
import { Routers } from "./routers.ts";
import { Services } from "./services.ts";
import { Sessions } from "./sessions.ts";
import { Terminators } from "./terminators.ts";

/** The entities of a network, and the rules between them. */
export interface Model {
  readonly identities: Identities;
  readonly authenticators: Authenticators;
  readonly enrollments: Enrollments;
  readonly routers: Routers;
  readonly services: Services;
  readonly configs: Configs;
  readonly servicePolicies: Policies;
  readonly edgeRouterPolicies: Policies;
  readonly serviceEdgeRouterPolicies: Policies;
  readonly terminators: Terminators;
  readonly apiSessions: ApiSessions;
  readonly sessions: Sessions;
  /** Policy in memory; ended by the upkeep. */
  readonly policy: PolicyMirror;
}

/** The model on a store. It starts nothing: see `upkeep.ts` for what runs by time. */
export function createModel(ctx: ModelContext): Model {
  const enrollments = new Enrollments(ctx);
  const identities = new Identities(ctx, enrollments);
  return {
    identities,
    enrollments,
    authenticators: new Authenticators(ctx, enrollments),
    routers: new Routers(ctx, enrollments, identities),
    services: new Services(ctx),
    configs: new Configs(ctx),
    servicePolicies: new Policies(ctx, SERVICE_POLICY),
    edgeRouterPolicies: new Policies(ctx, EDGE_ROUTER_POLICY),
    serviceEdgeRouterPolicies: new Policies(ctx, SERVICE_EDGE_ROUTER_POLICY),
    terminators: new Terminators(ctx),
    apiSessions: new ApiSessions(ctx),
    sessions: new Sessions(ctx),
    policy: new PolicyMirror(ctx),
  };
}
