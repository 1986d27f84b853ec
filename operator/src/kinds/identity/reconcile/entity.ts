import { type Collection, EntityReader, writable } from "../../../entity/collection.ts";
import { ownerOf } from "../../../entity/ownership.ts";
import { type EntityResource, networkRefOf } from "../../../entity/plan.ts";
import { EntitySync, type KnownEntity } from "../../../entity/sync.ts";
import { KINDS, type SecretObject } from "../../../kube/kinds.ts";
import type { ReconcileContext, Removal } from "../../../loop/kind-reconciler.ts";
import { wasObserved } from "../../../loop/status.ts";
import { type Invitation, wantedCredential } from "../plan/credential.ts";
import { type FoundIdentity, type IdentityFields, identityEntity, withDisablingMark } from "../plan/entity.ts";
import type { IdentityResource, IdentitySpec } from "../schema.ts";
import { IdentitySecret } from "../secret/identity-secret.ts";

/** What a new identity is invited by, as the API takes it together with the identity. */
type EnrollmentOfCreate = { readonly ott: true } | { readonly ottca: string } | { readonly updb: string };

function enrollmentOfCreate(invitation: Invitation): EnrollmentOfCreate {
  switch (invitation.method) {
    case "ott":
      return { ott: true };
    case "ottca":
      return { ottca: invitation.caId };
    case "updb":
      return { updb: invitation.username };
  }
}

/** The calls for identities. One that is created is invited at once by `invitation`; its token lives as long as the network's do. */
export function identityCollection(invitation: Invitation | undefined): Collection<IdentityFields, FoundIdentity> {
  const enrollment = invitation === undefined ? {} : { enrollment: enrollmentOfCreate(invitation) };
  return {
    list: (client, query, call) => client.listIdentities({ query }, call),
    detail: async (client, id, call) => (await client.detailIdentity({ params: { id } }, call)).data,
    create: async (client, fields, call) =>
      (await client.createIdentity({ body: writable({ ...fields, ...enrollment }) }, call)).data.id,
    replace: (client, { id, permissions }, body, call) =>
      client.updateIdentity({ params: { id }, body: writable({ ...body, permissions: permissions ?? [] }) }, call),
    fieldsOf: (found) => ({
      type: found.typeId as "Default",
      isAdmin: found.isAdmin,
      roleAttributes: found.roleAttributes ?? [],
      authPolicyId: found.authPolicyId,
      ...(found.externalId ? { externalId: found.externalId } : {}),
      defaultHostingCost: found.defaultHostingCost,
      defaultHostingPrecedence: found.defaultHostingPrecedence ?? "default",
      serviceHostingCosts: found.serviceHostingCosts ?? {},
      serviceHostingPrecedences: found.serviceHostingPrecedences ?? {},
      appData: found.appData ?? {},
    }),
    delete: (client, id, call) => client.deleteIdentity({ params: { id } }, call),
  };
}

export type Context = ReconcileContext<IdentityResource>;

/** One for all identities, so that questions at the same time are asked together. */
export const identityReader = new EntityReader(identityCollection(undefined));

/** A Secret of the resource as it is now. */
export async function secretOf(
  resource: IdentityResource,
  { client, signal }: Context,
  name: string,
): Promise<IdentitySecret> {
  const { namespace } = resource.metadata;
  const found = await client.get<SecretObject>({ kind: KINDS.Secret, namespace, name }, { signal });
  return new IdentitySecret(client, resource, name, found, signal);
}

export const entityOf = (resource: IdentityResource): EntityResource<IdentitySpec> => withDisablingMark(resource);

export const knownOf = ({ status }: IdentityResource): KnownEntity => ({
  id: status.id,
  wasObserved: wasObserved(status.conditions),
});

/** Takes the identity out of the network, or gives it up with what it logs in with. */
export async function removeIdentity(resource: IdentityResource, context: Context): Promise<Removal> {
  const { client } = context.networks.forNetwork(networkRefOf(resource));
  const { signal, cluster } = context;
  const entity = entityOf(resource);
  const sync = new EntitySync(identityEntity, identityCollection(undefined), identityReader);
  const result = await sync.remove(client, entity, knownOf(resource), ownerOf(entity, cluster), signal);
  if (result.state === "blocked") {
    return { state: "blocked", message: `the network refuses to delete it: ${result.message}` };
  }
  // What stays in the network keeps what it logs in with: without an owner the Secret is not collected.
  if (result.state === "released") await keepSecret(resource, context);
  const isGone = result.state === "gone";
  const note = isGone
    ? "the network has the identity no more"
    : "the identity stays in the network and belongs to no resource";
  const event = { type: "Normal", reason: isGone ? "Deleted" : "Released", action: "Delete", note } as const;
  return { state: result.state, events: [event] };
}

async function keepSecret(resource: IdentityResource, context: Context): Promise<void> {
  // One that only observes may have made it before.
  const wanted = wantedCredential({ ...resource, spec: { ...resource.spec, managementPolicy: "Manage" } });
  if (wanted.kind === "none") return;
  const secret = await secretOf(resource, context, wanted.secretName);
  if (secret.held.state === "ours") await secret.write(secret.content);
}
