import { KINDS } from "../../kube/kinds.ts";
import { EntityReader } from "../../network/entity-reader.ts";
import type { Known } from "../../network/entity-sync.ts";
import type { EntityResource } from "../../plan/entity/entity-plan.ts";
import { withDisablingMark } from "../../plan/identity/disabling.ts";
import type { IdentityResource, IdentitySpec } from "../../resources/identity.ts";
import { IdentitySecret } from "../../secrets/identity-secret.ts";
import type { SecretObject } from "../../secrets/secret-content.ts";
import { wasObserved } from "../entity/entity-conditions.ts";
import type { ReconcileContext } from "../loop/kind-reconciler.ts";
import { identityCollection } from "./identity-collection.ts";

/** What reconciling and removing an Identity have in common. */

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

export const networkOf = ({ metadata: { namespace }, spec }: IdentityResource) => ({
  namespace,
  name: spec.networkRef.name,
});

export const entityOf = (resource: IdentityResource): EntityResource<IdentitySpec> => withDisablingMark(resource);

export const knownOf = ({ status }: IdentityResource): Known => ({
  id: status.id,
  wasObserved: wasObserved(status.conditions),
});
