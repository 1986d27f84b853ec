import { apiTime, type tracingOperations, ZERO_TIME } from "@sallyport/api";
import type { ApiHandlers } from "../../http/context.ts";
import type { ApiDependencies } from "../dependencies.ts";

export function tracingHandlers({ ctx, model, fabric }: ApiDependencies): ApiHandlers<typeof tracingOperations> {
  return {
    updateIdentityTracing: async ({ params, body }) => {
      const identity = await model.identities.get(ctx.store.db, params.id);
      if (!body.enabled) {
        model.traces.disable(identity.id);
        return { data: { until: ZERO_TIME } };
      }
      const { traceId, until } = model.traces.enable(identity.id, body);
      return { data: { enabled: true, traceId, until: apiTime(until) } };
    },
    // Of a session that is unknown, or has no circuit, there is no way to show.
    detailSessionRoutePath: async ({ params }) => {
      const circuit = fabric.circuits().find(({ grant }) => grant.kind === "session" && grant.sessionId === params.id);
      return { data: { routePath: [...(circuit?.route.routers ?? [])] } };
    },
  };
}
