import {
  type clientOperations,
  POSTURE_TYPES,
  type PostureReport,
  type postureCheckTypeDetail,
  type postureOperations,
} from "@sallyport/api";
import type { z } from "zod";
import type { ApiHandlers } from "../../http/context.ts";
import { selectedByPolicies } from "../../model/policy/policies.ts";
import type { PromptedService } from "../../model/posture/posture.ts";
import { PROMPT_GRACE_MS } from "../../policy/posture/mfa.ts";
import { roleFilterSql } from "../../store/filter/filter-sql.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { POSTURE_CHECK_FIELDS } from "../lists/fields.ts";
import { fixedTypes } from "../lists/fixed-types.ts";
import { listed } from "../lists/listing.ts";
import { listRoleAttributes } from "../lists/role-attributes.ts";
import { baseOf } from "../render/base.ts";
import { renderPostureCheck, renderPostureData } from "../render/posture.ts";

/** Posture checks, and what is known of identities, for administrators. */
export function postureHandlers(deps: ApiDependencies): ApiHandlers<typeof postureOperations> {
  const { postureChecks, posture, servicePolicies, identities } = deps.model;
  const { db } = deps.ctx.store;
  const types = checkTypes(deps);

  return {
    listPostureChecks: ({ list, query }) => {
      const condition = roleFilterSql(
        { id: "posture_check.id", attributes: "posture_check.attrs" },
        query.roleFilter,
        query.roleSemantic,
      );
      const all = db.selectFrom("posture_check").selectAll();
      const wanted = condition === undefined ? all : all.where(condition);
      return listed(wanted, "posture_check", POSTURE_CHECK_FIELDS, list, (rows) => rows.map(renderPostureCheck));
    },
    createPostureCheck: async ({ body }) => ({ id: await postureChecks.create(body) }),
    detailPostureCheck: async ({ params }) => ({ data: renderPostureCheck(await postureChecks.get(db, params.id)) }),
    updatePostureCheck: ({ params, body }) => postureChecks.replace(params.id, body),
    patchPostureCheck: ({ params, body }) => postureChecks.patch(params.id, body),
    deletePostureCheck: ({ params }) => postureChecks.delete(params.id),
    listPostureCheckTypes: ({ list }) => types.list(list),
    detailPostureCheckType: ({ params }) => types.detail(params.id),
    listPostureCheckRoleAttributes: ({ list }) => listRoleAttributes(db, "posture_check", list),
    listServicePolicyPostureChecks: async ({ params, list }) => {
      const policies = await servicePolicies.byIds(db, [params.id]);
      const wanted = db.selectFrom("posture_check").selectAll().where(selectedByPolicies(policies, "posture_check"));
      return listed(wanted, "posture_check", POSTURE_CHECK_FIELDS, list, (rows) => rows.map(renderPostureCheck));
    },
    getIdentityPostureData: async ({ params }) => {
      const identity = await identities.get(db, params.id);
      return { data: await renderPostureData(deps, identity.id) };
    },
    getIdentityFailedServiceRequests: async ({ params }) => {
      const identity = await identities.get(db, params.id);
      return { data: posture.failedRequests.of(identity.id) };
    },
  };
}

/** What devices report. */
export function postureResponseHandlers(
  deps: ApiDependencies,
): Pick<ApiHandlers<typeof clientOperations>, "createPostureResponse" | "createPostureResponseBulk"> {
  const { posture, identities } = deps.model;
  const report = async (
    session: { readonly identityId: string; readonly apiSessionId: string },
    reports: readonly PostureReport[],
  ) => {
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
  return fixedTypes(
    deps,
    "postureCheckType",
    listed,
    (row): z.input<typeof postureCheckTypeDetail> => ({
      ...baseOf("posture-check-types", row),
      name: row.name,
      operatingSystems: (listed.find(({ id }) => id === row.id)?.systems ?? []).map((type) => ({
        type,
        versions: null,
      })),
      version: "1",
    }),
  );
}
