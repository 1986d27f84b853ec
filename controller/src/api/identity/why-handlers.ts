import { apiTime, type identityOperations, type whyAnswer } from "@sallyport/api";
import type { z } from "zod";
import type { ApiHandlers } from "../../http/context.ts";
import { accessFacts, accessSubjects } from "../../model/why/access-facts.ts";
import { type Explanation, explain } from "../../policy/why/explain.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { permissionOf } from "../network/policy-handlers.ts";

/** "Why not?" for administrators. Source: docs/why.md. */
export function whyHandlers(deps: ApiDependencies): Pick<ApiHandlers<typeof identityOperations>, "explainAccess"> {
  const { ctx, model, fabric } = deps;
  return {
    explainAccess: async ({ params, query }) => {
      const subjects = await accessSubjects(ctx, model, params.id, params.serviceId);
      const type = permissionOf(query.type ?? "dial");
      return { data: shown(explain(await accessFacts(ctx, model, fabric, { ...subjects, type }))) };
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
