import { Authentication } from "../auth/authentication.ts";
import { Enrolling } from "../auth/enrolling.ts";
import type { AllHandlers, Authenticate } from "../http/context.ts";
import type { ModelContext } from "../model/context.ts";
import type { Model } from "../model/model.ts";
import { clientHandlers } from "./client-handlers.ts";
import type { ApiDependencies, ControllerInfo, FabricView } from "./dependencies.ts";
import { fabricHandlers } from "./fabric/handlers.ts";
import { identityHandlers } from "./identity-handlers.ts";
import { networkHandlers } from "./network-handlers.ts";
import { policyHandlers } from "./policy-handlers.ts";
import { sharedHandlers } from "./shared-handlers.ts";

export interface Api {
  readonly handlers: AllHandlers;
  readonly authenticate: Authenticate;
}

/** The handlers of all APIs on a model; `http/server.ts` serves them. */
export function createApi(parts: {
  readonly ctx: ModelContext;
  readonly model: Model;
  readonly fabric: FabricView;
  readonly info: ControllerInfo;
}): Api {
  const { ctx, model } = parts;
  const authentication = new Authentication(ctx, model);
  const deps: ApiDependencies = { ...parts, authentication, enrolling: new Enrolling(ctx, model) };
  const shared = sharedHandlers(deps);
  return {
    handlers: {
      client: { ...shared, ...clientHandlers(deps) },
      management: { ...shared, ...identityHandlers(deps), ...networkHandlers(deps), ...policyHandlers(deps) },
      fabric: fabricHandlers(deps),
    },
    authenticate: async (request) => {
      if (request.sessionToken === undefined) return undefined;
      const found = await authentication.sessionOf(request.sessionToken);
      if (found === undefined) return undefined;
      const { session, identity } = found;
      return {
        apiSessionId: session.id,
        token: session.token,
        identityId: identity.id,
        isAdmin: identity.is_admin || identity.is_default_admin,
        isFullyAuthenticated: true,
        configTypes: session.config_types,
        expirationSeconds: Math.floor(model.apiSessions.timeoutMs / 1000),
        expiresAt: new Date(model.apiSessions.lastActivity(session).getTime() + model.apiSessions.timeoutMs),
      };
    },
  };
}
