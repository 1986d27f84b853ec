import {
  type EntityResource,
  type IdentityResource,
  type IdentitySpec,
  identityEntity,
  networkRefOf,
  ownerOf,
  withDisablingMark,
} from "@sallyport/resources";
import { EntityReader, EntitySync, identityCollection, type KnownEntity } from "@sallyport/resources/sync";
import { KINDS, type SecretObject } from "../../../kube/kinds.ts";
import type { ReconcileContext, Removal } from "../../../loop/kind-reconciler.ts";
import { wasObserved } from "../../../loop/status.ts";
import { wantedCredential } from "../plan/credential.ts";
import { IdentitySecret } from "../secret/identity-secret.ts";

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
