import { RowCounts } from "../store/row-counts.ts";
import type { ModelContext } from "./context.ts";
import { AuthPolicies } from "./identity/auth-policies.ts";
import { Authenticators } from "./identity/authenticators.ts";
import { Cas } from "./identity/cas.ts";
import { CertificateExtensions } from "./identity/certificate-extensions.ts";
import { Enrollments } from "./identity/enrollments.ts";
import { ExtJwtSigners } from "./identity/ext-jwt-signers.ts";
import { Identities } from "./identity/identities.ts";
import { Mfa } from "./identity/mfa.ts";
import { ServiceConfigOverrides } from "./identity/service-config-overrides.ts";
import { Traces } from "./identity/traces.ts";
import { DataIntegrity } from "./integrity/data-integrity.ts";
import { Snapshots } from "./integrity/snapshots.ts";
import { Configs } from "./network/configs.ts";
import { Routers } from "./network/routers.ts";
import { Services } from "./network/services.ts";
import { Terminators } from "./network/terminators.ts";
import { EDGE_ROUTER_POLICY, Policies, SERVICE_EDGE_ROUTER_POLICY, SERVICE_POLICY } from "./policy/policies.ts";
import { PolicyMirror } from "./policy/policy-mirror.ts";
import { Posture } from "./posture/posture.ts";
import { PostureChecks } from "./posture/posture-checks.ts";
import { ApiSessions } from "./session/api-sessions.ts";
import { Sessions } from "./session/sessions.ts";

/** The entities of a network, and the rules between them. */
export interface Model {
  readonly identities: Identities;
  readonly serviceConfigOverrides: ServiceConfigOverrides;
  readonly authenticators: Authenticators;
  readonly authPolicies: AuthPolicies;
  readonly extJwtSigners: ExtJwtSigners;
  readonly enrollments: Enrollments;
  readonly cas: Cas;
  readonly certificateExtensions: CertificateExtensions;
  readonly mfa: Mfa;
  readonly routers: Routers;
  readonly services: Services;
  readonly configs: Configs;
  readonly servicePolicies: Policies;
  readonly edgeRouterPolicies: Policies;
  readonly serviceEdgeRouterPolicies: Policies;
  readonly terminators: Terminators;
  readonly postureChecks: PostureChecks;
  readonly posture: Posture;
  readonly apiSessions: ApiSessions;
  readonly sessions: Sessions;
  readonly traces: Traces;
  /** How many rows the tables have, kept by the change log. */
  readonly counts: RowCounts;
  /** Policy in memory; ended by the upkeep. */
  readonly policy: PolicyMirror;
  /** Ended by the upkeep, too. */
  readonly integrity: DataIntegrity;
  readonly snapshots: Snapshots;
}

/** The model on a store. It starts nothing: see `upkeep.ts` for what runs by time. */
export function createModel(ctx: ModelContext): Model {
  const enrollments = new Enrollments(ctx);
  const policy = new PolicyMirror(ctx);
  const posture = new Posture(ctx, policy);
  const identities = new Identities(ctx, enrollments);
  const authenticators = new Authenticators(ctx, enrollments);
  return {
    identities,
    serviceConfigOverrides: new ServiceConfigOverrides(ctx, identities),
    enrollments,
    cas: new Cas(ctx),
    certificateExtensions: new CertificateExtensions(ctx, authenticators),
    mfa: new Mfa(ctx),
    authenticators,
    authPolicies: new AuthPolicies(ctx),
    extJwtSigners: new ExtJwtSigners(ctx),
    routers: new Routers(ctx, enrollments, identities),
    services: new Services(ctx),
    configs: new Configs(ctx),
    servicePolicies: new Policies(ctx, SERVICE_POLICY),
    edgeRouterPolicies: new Policies(ctx, EDGE_ROUTER_POLICY),
    serviceEdgeRouterPolicies: new Policies(ctx, SERVICE_EDGE_ROUTER_POLICY),
    terminators: new Terminators(ctx),
    postureChecks: new PostureChecks(ctx),
    posture,
    apiSessions: new ApiSessions(ctx),
    sessions: new Sessions(ctx, posture),
    traces: new Traces(ctx.now),
    counts: new RowCounts(ctx.store),
    policy,
    integrity: new DataIntegrity(ctx, policy),
    snapshots: new Snapshots(ctx),
  };
}
