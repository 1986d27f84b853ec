import {
  type authenticationOperations,
  type certificateAuthorityOperations,
  fieldError,
  type revocationOperations,
} from "@sallyport/api";
import type { ApiHandlers } from "../../http/context.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { AUTH_POLICY_FIELDS, CA_FIELDS, EXT_JWT_SIGNER_FIELDS, REVOCATION_FIELDS } from "../lists/fields.ts";
import { listed } from "../lists/listing.ts";
import { renderAuthPolicy, renderCa, renderRevocation, renderSigner } from "../render/credentials.ts";

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

/** Third-party certificate authorities, and requests to extend certificates. */
export function caHandlers({ ctx, model }: ApiDependencies): ApiHandlers<typeof certificateAuthorityOperations> {
  const { db } = ctx.store;
  return {
    listCas: ({ list }) => listed(db.selectFrom("ca").selectAll(), "ca", CA_FIELDS, list, (rows) => rows.map(renderCa)),
    createCa: async ({ body }) => ({ id: await model.cas.create(body) }),
    detailCa: async ({ params }) => ({ data: renderCa(await model.cas.get(db, params.id)) }),
    updateCa: ({ params, body }) => model.cas.replace(params.id, body),
    patchCa: ({ params, body }) => model.cas.patch(params.id, body),
    deleteCa: ({ params }) => model.cas.delete(params.id),
    getCaJwt: async ({ params }) => ({ body: await model.cas.enrollmentJwt(params.id) }),
    verifyCa: ({ params, body }) => model.cas.verify(params.id, body),
    requestExtendAuthenticator: ({ params, body }) => model.certificateExtensions.request(params.id, body.rollKeys),
  };
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Tokens that count no longer. */
export function revocationHandlers({ ctx, model }: ApiDependencies): ApiHandlers<typeof revocationOperations> {
  const { db } = ctx.store;
  return {
    listRevocations: ({ list }) =>
      listed(db.selectFrom("revocation").selectAll(), "revocation", REVOCATION_FIELDS, list, (rows) =>
        rows.map(renderRevocation),
      ),
    createRevocation: async ({ body }) => {
      const { id, type } = body;
      if (type !== "IDENTITY" && !UUID.test(id)) throw fieldError("id", "id must be a UUID", id);
      await model.revocations.create(body);
      return { id };
    },
    detailRevocation: async ({ params }) => ({ data: renderRevocation(await model.revocations.get(params.id)) }),
  };
}
