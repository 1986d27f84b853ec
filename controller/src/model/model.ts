import { RowCounts } from "../store/row-counts.ts";
import type { ModelContext } from "./context.ts";
import { FailedDials } from "./fabric/failed-dials.ts";
import { AuthPolicies } from "./identity/auth-policies.ts";
import { Authenticators } from "./identity/authenticators.ts";
import { Cas } from "./identity/cas.ts";
import { CertificateExtensions } from "./identity/certificate-extensions.ts";
import { Enrollments } from "./identity/enrollments.ts";
import { ExtJwtSigners } from "./identity/ext-jwt-signers.ts";
import { Identities } from "./identity/identities.ts";
import { Mfa } from "./identity/mfa.ts";
import { Traces } from "./identity/traces.ts";
import { DataIntegrity } from "./integrity/data-integrity.ts";
import { Snapshots } from "./integrity/snapshots.ts";
import { Configs } from "./network/configs.ts";
import { Routers } from "./network/routers.ts";
import { ServiceConfigOverrides } from "./network/service-configs.ts";
import { Services } from "./network/services.ts";
import { Terminators } from "./network/terminators.ts";
import { EDGE_ROUTER_POLICY, Policies, SERVICE_EDGE_ROUTER_POLICY, SERVICE_POLICY } from "./policy/policies.ts";
import { PolicyMirror } from "./policy/policy-mirror.ts";
import { Posture } from "./posture/posture.ts";
import { PostureChecks } from "./posture/posture-checks.ts";
import { ApiSessions } from "./session/api-sessions.ts";
import { OidcLogins } from "./session/oidc-logins.ts";
import { OidcSessions } from "./session/oidc-sessions.ts";
import { Revocations } from "./session/revocations.ts";
import { SessionCount } from "./session/session-count.ts";
import { Sessions } from "./session/sessions.ts";

/** The model on a store. It starts nothing: see `upkeep.ts` for what runs by time. */
export function createModel(ctx: ModelContext) {
  const enrollments = new Enrollments(ctx);
  const policy = new PolicyMirror(ctx);
  const posture = new Posture(ctx, policy);
  const failedDials = new FailedDials(ctx.now);
  const identities = new Identities(ctx, enrollments);
  const authenticators = new Authenticators(ctx, enrollments);
  return {
    identities,
    serviceConfigOverrides: new ServiceConfigOverrides(ctx),
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
    sessions: new Sessions(ctx, posture, new SessionCount(), failedDials),
    failedDials,
    oidcLogins: new OidcLogins(ctx),
    oidcSessions: new OidcSessions(ctx),
    revocations: new Revocations(ctx),
    traces: new Traces(ctx.now),
    /** How many rows the tables have, kept by the change log. */
    counts: new RowCounts(ctx.store),
    /** Policy in memory. The upkeep ends it, and the integrity runs. */
    policy,
    integrity: new DataIntegrity(ctx, policy),
    snapshots: new Snapshots(ctx),
  };
}

/** The entities of a network, and the rules between them. */
export type Model = Readonly<ReturnType<typeof createModel>>;
