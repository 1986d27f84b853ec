import { controllerSettingOperations, revocationOperations } from "@sallyport/api";
import { Authentication, type AuthSettings } from "../auth/authentication.ts";
import { Enrolling } from "../auth/enrolling.ts";
import type { AllHandlers, Authenticate } from "../http/context.ts";
import type { ModelContext } from "../model/context.ts";
import type { Model } from "../model/model.ts";
import { clientHandlers } from "./client/client-handlers.ts";
import { authenticationHandlers, caHandlers } from "./credentials/authentication-handlers.ts";
import { enrollmentHandlers } from "./credentials/enrollment-handlers.ts";
import type { ApiDependencies, ControllerInfo, FabricView } from "./dependencies.ts";
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
  readonly info: ControllerInfo;
  readonly auth: AuthSettings;
}): { readonly handlers: AllHandlers; readonly authenticate: Authenticate } {
  const { ctx, model } = parts;
  const authentication = new Authentication(ctx, model, parts.auth);
  const deps: ApiDependencies = { ...parts, authentication, enrolling: new Enrolling(ctx, model) };
  const shared = sharedHandlers(deps);
  const database = databaseHandlers(deps);
  return {
    handlers: {
      client: { ...shared, ...enrollmentHandlers(deps), ...clientHandlers(deps) },
      management: {
        ...shared,
        ...identityHandlers(deps),
        ...authenticationHandlers(deps),
        ...caHandlers(deps),
        ...database.management,
        ...unservedHandlers(controllerSettingOperations),
        ...unservedHandlers(revocationOperations),
        ...networkHandlers(deps),
        ...policyHandlers(deps),
        ...postureHandlers(deps),
        ...mfaAdministrationHandlers(deps),
        ...routerHandlers(deps),
        ...tracingHandlers(deps),
      },
      fabric: { ...fabricHandlers(deps), ...database.fabric },
    },
    authenticate: async (request) => {
      // A client that enrolls has no session yet: the limit counts its address, before a byte of the body is read.
      if (request.method === "POST" && ENROLLING.test(request.path)) await authentication.admit(request);
      if (request.sessionToken === undefined) return undefined;
      const session = await authentication.sessionOf(request.sessionToken, request.bearerTokens);
      if (session === undefined) return undefined;
      const { authQueries } = session.open;
      const lastActivity = model.apiSessions.lastActivity({ id: session.id, last_activity_at: session.lastActivityAt });
      return {
        apiSessionId: session.id,
        token: session.token,
        identityId: session.identityId,
        isAdmin: session.isAdmin,
        isFullyAuthenticated: authQueries.length === 0,
        authQueries,
        configTypes: session.configTypes,
        expirationSeconds: Math.floor(model.apiSessions.timeoutMs / 1000),
        expiresAt: new Date(lastActivity.getTime() + model.apiSessions.timeoutMs),
      };
    },
  };
}
