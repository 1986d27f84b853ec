import type { authenticationOperations } from "@sallyport/api";
import type { ApiHandlers } from "../../http/context.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { AUTH_POLICY_FIELDS, EXT_JWT_SIGNER_FIELDS } from "../lists/fields.ts";
import { listed } from "../lists/listing.ts";
import { renderAuthPolicy, renderSigner } from "../render/credentials.ts";

/** Authentication policies and external JWT signers. */
export function authenticationHandlers(deps: ApiDependencies): ApiHandlers<typeof authenticationOperations> {
  const { authPolicies, extJwtSigners } = deps.model;
  const { db } = deps.ctx.store;

  return {
    listAuthPolicies: ({ list }) =>
      listed(db.selectFrom("auth_policy").selectAll(), "auth_policy", AUTH_POLICY_FIELDS, list, (rows) =>
        rows.map(renderAuthPolicy),
      ),
    createAuthPolicy: async ({ body }) => ({ id: await authPolicies.create(body) }),
    detailAuthPolicy: async ({ params }) => ({ data: renderAuthPolicy(await authPolicies.get(db, params.id)) }),
    updateAuthPolicy: ({ params, body }) => authPolicies.replace(params.id, body),
    patchAuthPolicy: ({ params, body }) => authPolicies.update(params.id, body),
    deleteAuthPolicy: ({ params }) => authPolicies.delete(params.id),

    listExternalJwtSigners: ({ list }) =>
      listed(db.selectFrom("ext_jwt_signer").selectAll(), "ext_jwt_signer", EXT_JWT_SIGNER_FIELDS, list, (rows) =>
        rows.map(renderSigner),
      ),
    createExternalJwtSigner: async ({ body }) => ({ id: await extJwtSigners.create(body) }),
    detailExternalJwtSigner: async ({ params }) => ({ data: renderSigner(await extJwtSigners.get(db, params.id)) }),
    updateExternalJwtSigner: ({ params, body }) => extJwtSigners.replace(params.id, body),
    patchExternalJwtSigner: ({ params, body }) => extJwtSigners.update(params.id, body),
    deleteExternalJwtSigner: ({ params }) => extJwtSigners.delete(params.id),
  };
}
