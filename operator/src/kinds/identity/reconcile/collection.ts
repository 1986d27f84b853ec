import type { Collection, EntityChange } from "../../../entity/collection.ts";
import type { Invitation } from "../plan/credential.ts";
import type { FoundIdentity, IdentityFields } from "../plan/entity.ts";

/** What a new identity is invited by, as the API takes it together with the identity. */
type EnrollmentOfCreate = { readonly ott: true } | { readonly ottca: string } | { readonly updb: string };

export function enrollmentOfCreate(invitation: Invitation): EnrollmentOfCreate {
  switch (invitation.method) {
    case "ott":
      return { ott: true };
    case "ottca":
      return { ottca: invitation.caId };
    case "updb":
      return { updb: invitation.username };
  }
}

interface Call {
  readonly signal?: AbortSignal;
}

/** The API's shapes are written by hand on both sides: what is read only here may be written there. */
const body = (fields: object): never => fields as never;

/** The calls for identities. One that is created is invited at once by `invitation`; its token lives as long as the network's do. */
export function identityCollection(invitation: Invitation | undefined): Collection<IdentityFields, FoundIdentity> {
  const enrollment = invitation === undefined ? {} : { enrollment: enrollmentOfCreate(invitation) };
  return {
    list: (client, query, call) => client.listIdentities({ query }, call),
    detail: async (client, id, call) => (await client.detailIdentity({ params: { id } }, call)).data,
    create: async (client, fields, call) =>
      (await client.createIdentity({ body: body({ ...fields, ...enrollment }) }, call)).data.id,
    change: (client, { found, whole }: EntityChange<IdentityFields, FoundIdentity>, call: Call) => {
      const permissions = found.permissions ?? [];
      return client.updateIdentity({ params: { id: found.id }, body: body({ ...whole, permissions }) }, call);
    },
    retag(client, found, tags, call) {
      const fields = {
        type: found.typeId,
        isAdmin: found.isAdmin,
        roleAttributes: found.roleAttributes ?? [],
        authPolicyId: found.authPolicyId,
        ...(found.externalId ? { externalId: found.externalId } : {}),
        defaultHostingCost: found.defaultHostingCost,
        defaultHostingPrecedence: found.defaultHostingPrecedence ?? "default",
        serviceHostingCosts: found.serviceHostingCosts ?? {},
        serviceHostingPrecedences: found.serviceHostingPrecedences ?? {},
        appData: found.appData ?? {},
        permissions: found.permissions ?? [],
      };
      const whole = { ...fields, name: found.name, tags };
      return client.updateIdentity({ params: { id: found.id }, body: body(whole) }, call);
    },
    delete: (client, id, call) => client.deleteIdentity({ params: { id } }, call),
  };
}
