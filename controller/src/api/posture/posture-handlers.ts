import {
  type clientOperations,
  type ListQuery,
  POSTURE_TYPES,
  type PostureReport,
  type postureCheckTypeDetail,
  type postureOperations,
} from "@sallyport/api";
import { PROMPT_GRACE_MS } from "@sallyport/posture";
import type { RawBuilder, SqlBool } from "kysely";
import type { z } from "zod";
import type { ApiHandlers, ApiSessionContext } from "../../http/context.ts";
import { selectedByPolicies } from "../../model/policy/policies.ts";
import type { PromptedService } from "../../model/posture/posture.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { POSTURE_CHECK_FIELDS } from "../lists/fields.ts";
import { fixedTypes, listed, listRoleAttributes, roleCondition } from "../lists/listing.ts";
import { listAttributeUsage } from "../lists/role-attribute-usage.ts";
import { baseOf } from "../render/base.ts";
import { renderPostureCheck, renderPostureData } from "../render/posture.ts";

/** Posture checks and reported posture, for administrators. */
export function postureHandlers(deps: ApiDependencies): ApiHandlers<typeof postureOperations> {
  const { postureChecks, servicePolicies, identities } = deps.model;
  const { db } = deps.ctx.store;
  const types = checkTypes(deps);
  const listChecks = (list: ListQuery, condition?: RawBuilder<SqlBool>) => {
    const all = db.selectFrom("posture_check").selectAll();
    const wanted = condition === undefined ? all : all.where(condition);
    return listed(wanted, "posture_check", POSTURE_CHECK_FIELDS, list, (rows) => rows.map(renderPostureCheck));
  };

  return {
    listPostureChecks: ({ list, query }) => listChecks(list, roleCondition("posture_check", query)),
    createPostureCheck: async ({ body }) => ({ id: await postureChecks.create(body) }),
    detailPostureCheck: async ({ params }) => ({ data: renderPostureCheck(await postureChecks.get(db, params.id)) }),
    updatePostureCheck: ({ params, body }) => postureChecks.replace(params.id, body),
    patchPostureCheck: ({ params, body }) => postureChecks.patch(params.id, body),
    deletePostureCheck: ({ params }) => postureChecks.delete(params.id),
    listPostureCheckTypes: ({ list }) => types.list(list),
    detailPostureCheckType: ({ params }) => types.detail(params.id),
    listPostureCheckRoleAttributes: ({ list }) => listRoleAttributes(db, "posture_check", list),
    listPostureCheckRoleAttributeUsage: ({ list, query }) =>
      listAttributeUsage(db, "posture_check", list, query.withIds === true),
    listServicePolicyPostureChecks: async ({ params, list }) => {
      const policies = await servicePolicies.byIds(db, [params.id]);
      return listChecks(list, selectedByPolicies(policies, "posture_check"));
    },
    getIdentityPostureData: async ({ params }) => {
      const identity = await identities.get(db, params.id);
      return { data: await renderPostureData(deps, identity.id) };
    },
    getIdentityFailedServiceRequests: async ({ params }) => {
      const identity = await identities.get(db, params.id);
      return { data: await deps.memory.failedRequests(identity.id) };
    },
  };
}

/** Reports of devices. */
export function postureResponseHandlers(
  deps: ApiDependencies,
): Pick<ApiHandlers<typeof clientOperations>, "createPostureResponse" | "createPostureResponseBulk"> {
  const { posture, identities } = deps.model;
  const report = async (session: ApiSessionContext, reports: readonly PostureReport[]) => {
    const identity = await identities.get(deps.ctx.store.db, session.identityId);
    const prompted = await posture.report(identity, session.apiSessionId, reports);
    return { data: { services: prompted.map(renderPrompted) } };
  };
  return {
    createPostureResponse: ({ body, session }) => report(session, [body]),
    createPostureResponseBulk: ({ body, session }) => report(session, body),
  };
}

function renderPrompted({ id, name, timeoutSeconds }: PromptedService) {
  return { id, name, postureQueryType: "MFA", timeout: timeoutSeconds, timeoutRemaining: PROMPT_GRACE_MS / 1000 };
}

/** The types of checks. `MFA` is not among them, as in OpenZiti. */
function checkTypes(deps: ApiDependencies) {
  const listed = Object.entries(POSTURE_TYPES).flatMap(([id, { parts }]) =>
    parts.listed === undefined ? [] : [{ id, ...parts.listed }],
  );
  return fixedTypes(deps, "postureCheckType", listed, (row): z.input<typeof postureCheckTypeDetail> => {
    const systems = listed.find(({ id }) => id === row.id)?.systems ?? [];
    return {
      ...baseOf("posture-check-types", row),
      name: row.name,
      operatingSystems: systems.map((type) => ({ type, versions: null })),
      version: "1",
    };
  });
}
