import { apiTime, type clientOperations, type identityOperations, notFound, type whyAnswer } from "@sallyport/api";
import type { z } from "zod";
import type { ApiHandlers } from "../../http/context.ts";
import { permissionsOn } from "../../model/policy/access.ts";
import { accessFacts, accessSubjects } from "../../model/why/access-facts.ts";
import { type Explanation, explain } from "../../policy/why/explain.ts";
import { ownView } from "../../policy/why/own-view.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { permissionOf } from "../network/policy-handlers.ts";

/** "Why not?" for administrators. Source: docs/why.md. */
export function whyHandlers(deps: ApiDependencies): Pick<ApiHandlers<typeof identityOperations>, "explainAccess"> {
  const { ctx, model, fabric, memory } = deps;
  return {
    explainAccess: async ({ params, query }) => {
      const subjects = await accessSubjects(ctx, model, params.id, params.serviceId);
      const type = permissionOf(query.type ?? "dial");
      const dials = memory.dials(subjects.identity.id, subjects.service.id, type);
      return { data: shown(explain(await accessFacts(ctx, model, fabric, { ...subjects, type, dials }))) };
    },
  };
}

/** "Why not?" for the caller itself. A service that it may not see is answered like one that does not exist. */
export function ownWhyHandlers(deps: ApiDependencies): Pick<ApiHandlers<typeof clientOperations>, "explainOwnAccess"> {
  const { ctx, model, fabric, memory } = deps;
  return {
    explainOwnAccess: async ({ params, query, session }) => {
      const { db } = ctx.store;
      const identity = await model.identities.get(db, session.identityId);
      const service = await model.services.findByIdOrName(db, params.id);
      const grants = await model.policy.grantsOf(identity);
      const isVisible = service !== undefined && (identity.is_admin || permissionsOn(grants, service).length > 0);
      if (!isVisible) throw notFound("service", params.id);
      const type = permissionOf(query.type ?? "dial");
      const { apiSessionId } = session;
      const dials = memory.dials(identity.id, service.id, type);
      const facts = await accessFacts(ctx, model, fabric, { identity, service, type, apiSessionId, dials });
      return { data: shown(ownView(explain(facts))) };
    },
  };
}

/** As the API writes it: times as text. */
function shown({ at, lastFailedDials, ...explanation }: Explanation): z.input<typeof whyAnswer> {
  return {
    ...explanation,
    at: apiTime(at),
    lastFailedDials: lastFailedDials.map((dial) => ({ ...dial, at: apiTime(dial.at) })),
  } as z.input<typeof whyAnswer>;
}
