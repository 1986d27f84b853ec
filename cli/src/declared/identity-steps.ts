/** What an Identity asks for beside its entity: a lock, and configs of services. */
import {
  type DisablingPlan,
  type EntityResource,
  type FoundEntity,
  type FoundIdentity,
  hasDisablingMark,
  type IdentityResource,
  OWNER_TAGS,
  planDisabling,
  planServiceConfigs,
  type ResolvedReferences,
} from "@sallyport/resources";
import type { Change } from "./changes.ts";
import type { NetworkState } from "./network-state.ts";

type Pairs = ReturnType<typeof planServiceConfigs>["assign"];

export interface IdentitySteps {
  readonly disabling: DisablingPlan["action"];
  readonly assign: Pairs;
  readonly remove: Pairs;
  readonly warning: string | undefined;
}

const NOTHING: IdentitySteps = { disabling: "none", assign: [], remove: [], warning: undefined };

export async function identitySteps(
  { spec }: EntityResource,
  found: FoundEntity | undefined,
  references: ResolvedReferences,
  { client, signal }: NetworkState,
): Promise<IdentitySteps> {
  const wanted = spec as IdentityResource["spec"];
  if (wanted.managementPolicy === "Observe") return NOTHING;
  const identity = found as FoundIdentity | undefined;
  const state = identity ?? { disabled: false, disabledUntil: undefined };
  const disabling = planDisabling(wanted.disabled, state, identity !== undefined && hasDisablingMark(identity));
  // One request per identity, so only where there may be some.
  const mayHave = (wanted.serviceConfigs ?? []).length > 0 || identity?.tags?.[OWNER_TAGS.serviceConfigs] !== undefined;
  const given =
    identity === undefined || !mayHave
      ? []
      : (await client.listIdentitysServiceConfigs({ params: { id: identity.id } }, { signal })).data;
  const { assign, remove } = planServiceConfigs(wanted, references, given);
  return {
    disabling: disabling.action,
    assign,
    remove: remove.map(({ serviceId, configId }) => ({ serviceId, configId })),
    warning: disabling.action === "leave" ? disabling.message : undefined,
  };
}

export function identityChanges({ disabling, assign, remove }: IdentitySteps): Change[] {
  const shown = (pairs: Pairs) => pairs.map(({ serviceId, configId }) => ({ service: serviceId, config: configId }));
  const isLock = disabling === "disable";
  return [
    ...(isLock || disabling === "enable" ? [{ path: ["disabled"], before: !isLock, after: isLock }] : []),
    ...(assign.length > 0 ? [{ path: ["serviceConfigs"], before: undefined, after: shown(assign) }] : []),
    ...(remove.length > 0 ? [{ path: ["serviceConfigs"], before: shown(remove), after: undefined }] : []),
  ];
}

/** Lets an identity in: before its entity loses the mark that says who locked it out. */
export async function letIn(id: string, { disabling }: IdentitySteps, { client, signal }: NetworkState): Promise<void> {
  if (disabling === "enable") await client.enableIdentity({ params: { id } }, { signal });
}

/** The rest, when the entity is as declared. */
export async function finishIdentity(
  id: string,
  { disabling, assign, remove }: IdentitySteps,
  { client, signal }: NetworkState,
): Promise<void> {
  const params = { id };
  if (disabling === "disable") await client.disableIdentity({ params, body: { durationMinutes: 0 } }, { signal });
  if (assign.length > 0) await client.associateIdentitysServiceConfigs({ params, body: [...assign] }, { signal });
  if (remove.length > 0) await client.disassociateIdentitysServiceConfigs({ params, body: [...remove] }, { signal });
}
