import { controllerSettingOperations, operations } from "@sallyport/api";
import { Authentication, type AuthSettings } from "../auth/authentication.ts";
import type { AuthenticatedSession } from "../auth/current-sessions.ts";
import { Enrolling } from "../auth/enrolling.ts";
import type { Refusal } from "../http/challenges.ts";
import type { AllHandlers, ApiSessionContext, Authenticate, RequestInfo } from "../http/context.ts";
import type { ModelContext } from "../model/context.ts";
import type { Model } from "../model/model.ts";
import { clientHandlers } from "./client/client-handlers.ts";
import { authenticationHandlers, caHandlers, revocationHandlers } from "./credentials/authentication-handlers.ts";
import { enrollmentHandlers } from "./credentials/enrollment-handlers.ts";
import type { ApiDependencies, ControllerInfo, FabricView, MemoryView, NetworkView } from "./dependencies.ts";
import { withEntityVersions } from "./entity-versions.ts";
import { fabricHandlers } from "./fabric/handlers.ts";
import { identityHandlers, tracingHandlers } from "./identity/identity-handlers.ts";
import { mfaAdministrationHandlers } from "./mfa/mfa-handlers.ts";
import { networkHandlers, routerHandlers } from "./network/network-handlers.ts";
import { policyHandlers } from "./network/policy-handlers.ts";
import { postureHandlers } from "./posture/posture-handlers.ts";
import { sharedHandlers } from "./shared-handlers.ts";
import { databaseHandlers, unservedHandlers } from "./system/system-handlers.ts";

/** The paths of enrolling clients; not those of the enrollments that administrators manage. */
const ENROLLING = /^\/enroll(\/|$)/;

/** The handlers of all APIs on a model; `http/server.ts` serves them. */
export function createApi(parts: {
  readonly ctx: ModelContext;
  readonly model: Model;
  readonly fabric: FabricView;
  readonly network: NetworkView;
  readonly memory: MemoryView;
  readonly info: ControllerInfo;
  readonly auth: AuthSettings;
  /** Called for each row of a session that a request has to read. */
  readonly onSessionRead?: () => void;
}): { readonly handlers: AllHandlers; readonly authenticate: Authenticate; readonly authentication: Authentication } {
  const { ctx, model } = parts;
  const authentication = new Authentication(ctx, model, parts.auth, parts.onSessionRead);
  const deps: ApiDependencies = {
    ...parts,
    authentication,
    enrolling: new Enrolling(ctx, model, authentication.tokenCheck),
  };
  const shared = sharedHandlers(deps);
  const database = databaseHandlers(deps);
  return {
    handlers: {
      client: { ...shared, ...enrollmentHandlers(deps), ...clientHandlers(deps) },
      management: withEntityVersions(ctx.store, operations.management, {
        ...shared,
        ...identityHandlers(deps),
        ...authenticationHandlers(deps),
        ...caHandlers(deps),
        ...database.management,
        ...unservedHandlers(controllerSettingOperations),
        ...revocationHandlers(deps),
        ...networkHandlers(deps),
        ...policyHandlers(deps),
        ...postureHandlers(deps),
        ...mfaAdministrationHandlers(deps),
        ...routerHandlers(deps),
        ...tracingHandlers(deps),
      }),
      fabric: { ...fabricHandlers(deps), ...database.fabric },
    },
    authentication,
    authenticate: async (request, again) => {
      // A client that enrolls has no session yet: the limit counts its address, before a byte of the body is read.
      if (request.method === "POST" && ENROLLING.test(request.path)) await authentication.admit(request);
      const session = await sessionOf(authentication, request, again);
      if ("refused" in session) return { scheme: ctx.settings.oidc.enabled ? "any" : "zt-session", ...session };
      const { authQueries } = session.open;
      return {
        apiSessionId: session.id,
        kind: session.kind,
        token: session.token,
        ...(session.access && { access: session.access }),
        identityId: session.identityId,
        isAdmin: session.isAdmin,
        isFullyAuthenticated: authQueries.length === 0,
        authQueries,
        configTypes: session.configTypes,
        ...timesOf(ctx, model, session),
      };
    },
  };
}

/** A session token comes before all bearer tokens, which are external ones then. */
async function sessionOf(
  authentication: Authentication,
  request: RequestInfo,
  again: ApiSessionContext | undefined,
): Promise<AuthenticatedSession | (Omit<Refusal, "scheme"> & Partial<Pick<Refusal, "scheme">>)> {
  const { sessionToken, bearerTokens } = request;
  if (sessionToken !== undefined) {
    const session = await authentication.sessionOf(sessionToken, bearerTokens);
    return session ?? { refused: "invalid", scheme: "zt-session" };
  }
  const found =
    again === undefined
      ? await authentication.sessionOfBearer(request)
      : await authentication.sessionAgain({ ...again, id: again.apiSessionId }, request);
  return "refused" in found && found.refused !== "missing" ? { ...found, scheme: "bearer" } : found;
}

/** When the session ends, as its caller is told: by inactivity, or with the access token. */
function timesOf(ctx: ModelContext, { apiSessions }: Model, session: AuthenticatedSession) {
  if (session.access !== undefined) {
    const { expiresAt } = session.access;
    return { expirationSeconds: Math.floor((expiresAt.getTime() - ctx.now().getTime()) / 1_000), expiresAt };
  }
  const lastActivity = apiSessions.lastActivity({ id: session.id, last_activity_at: session.lastActivityAt });
  return {
    expirationSeconds: Math.floor(apiSessions.timeoutMs / 1_000),
    expiresAt: new Date(lastActivity.getTime() + apiSessions.timeoutMs),
  };
}
