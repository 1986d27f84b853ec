import type { EntityResource } from "../../../entity/plan.ts";
import { EntityReader } from "../../../entity/reader.ts";
import type { Known } from "../../../entity/sync.ts";
import { KINDS, type SecretObject } from "../../../kube/kinds.ts";
import { wasObserved } from "../../../loop/conditions.ts";
import type { ReconcileContext } from "../../../loop/kind-reconciler.ts";
import { withDisablingMark } from "../plan/disabling.ts";
import type { IdentityResource, IdentitySpec } from "../schema.ts";
import { IdentitySecret } from "../secret/identity-secret.ts";
import { identityCollection } from "./collection.ts";

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
