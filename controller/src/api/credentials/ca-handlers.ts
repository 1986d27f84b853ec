import type { certificateAuthorityOperations } from "@sallyport/api";
import type { ApiHandlers } from "../../http/context.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { CA_FIELDS } from "../lists/fields.ts";
import { listed } from "../lists/listing.ts";
import { renderCa } from "../render/ca.ts";

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
