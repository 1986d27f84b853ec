import { ownerOf } from "../../../entity/ownership.ts";
import { EntitySync } from "../../../entity/sync.ts";
import type { Removal } from "../../../loop/kind-reconciler.ts";
import { wantedCredential } from "../plan/credential.ts";
import { identityEntity } from "../plan/entity.ts";
import type { IdentityResource } from "../schema.ts";
import { identityCollection } from "./collection.ts";
import { type Context, entityOf, identityReader, knownOf, networkOf, secretOf } from "./entity.ts";

/** Takes the identity out of the network, or gives it up with what it logs in with. */
export async function removeIdentity(resource: IdentityResource, context: Context): Promise<Removal> {
  const { client } = context.networks.forNetwork(networkOf(resource));
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
