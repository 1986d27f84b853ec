import { evaluate, expiresAt, impossibleCheck, type PostureCheck, type PostureState } from "@sallyport/posture";
import type { NetworkModel } from "../control/data-model/network-model.ts";
import type { ModelPolicy } from "../control/data-model/policy-members.ts";
import type { CheckState, IdentityView, PolicyView, ServiceView } from "./ports.ts";

/** The checks of a policy, by id. One that the data model lacks passes for no device. */
export function checksOf(model: NetworkModel, { checkIds }: ModelPolicy): PostureCheck[] {
  return [...checkIds].sort().map((id) => model.checks.get(id) ?? impossibleCheck(id, id));
}

/** Everything that an identity is granted, with the states of its posture. One that is unknown or disabled has nothing. */
export function viewOf(model: NetworkModel, identityId: string, posture: PostureState, now: number): IdentityView {
  const identity = model.identity(identityId);
  const policies = new Map<string, PolicyView>();
  const checks = new Map<string, PostureCheck>();
  const checkStates = new Map<string, CheckState>();
  const policyStates = new Map<string, boolean>();
  const policyIds = new Map<string, string[]>();
  for (const policy of identity === undefined || identity.disabled ? [] : model.policiesOf(identityId)) {
    const { id, type } = policy;
    if (type === undefined) continue;
    const asked = checksOf(model, policy);
    for (const check of asked) checks.set(check.id, check);
    policies.set(id, { id, type, checkIds: asked.map((check) => check.id) });
    // Many policies ask for the same checks: each is evaluated once.
    const states = asked.map((check) => checkStates.getOrInsertComputed(check.id, () => stateOf(check, posture, now)));
    policyStates.set(
      id,
      states.every(({ isPassing }) => isPassing),
    );
    for (const service of model.servicesOf(policy)) policyIds.getOrInsertComputed(service.id, () => []).push(id);
  }
  const services = new Map<string, ServiceView>();
  for (const [id, granting] of policyIds) {
    const service = model.services.get(id);
    if (service === undefined || identity === undefined) continue;
    const { name, isEncrypted, configIds } = service;
    const configs = model.configsOf(service, identity);
    services.set(id, { id, name, isEncrypted, configIds, policyIds: granting.sort(), configs });
  }
  return { index: model.index, services, policies, checks, checkStates, policyStates };
}

function stateOf(check: PostureCheck, posture: PostureState, now: number): CheckState {
  const { isPassing } = evaluate([check], posture, now);
  const timeoutAt = isPassing ? expiresAt(check, posture) : undefined;
  return timeoutAt === undefined ? { isPassing } : { isPassing, timeoutAt };
}
