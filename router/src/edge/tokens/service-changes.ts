import { isDeepStrictEqual } from "node:util";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type PostureCheck, PROMPT_GRACE_MS } from "@sallyport/posture";
import { edgeClientPb } from "@sallyport/wire";
import type { IdentityView, PolicyView, ServiceView } from "../../access/ports.ts";

/**
 * What a subscribed SDK is told of its services, policies and posture checks (docs/protocol/edge.md, "Service subscriptions"). Pure.
 */

type ServiceChangeSet = MessageInitShape<typeof edgeClientPb.ServiceChangeSetSchema>;
type PostureStateChange = MessageInitShape<typeof edgeClientPb.PostureStateChangeSchema>;

const { Op, PolicyType } = edgeClientPb;

/** The previous index of a set that takes the place of all that was sent before. */
const FROM_NOTHING = -1n;

/** Everything. */
export function snapshotOf(view: IdentityView): ServiceChangeSet {
  return {
    index: view.index,
    previousIndex: FROM_NOTHING,
    services: [...view.services.values()].map((service) => serviceDef(Op.Added, service)),
    policies: [...view.policies.values()].map((policy) => policyDef(Op.Added, policy)),
    postureChecks: [...view.checks.values()].map((check) => checkDef(Op.Added, check)),
  };
}

/** What differs; undefined: nothing. What was removed is named by its id alone. */
export function changesBetween(before: IdentityView, after: IdentityView): ServiceChangeSet | undefined {
  const checks = differences(before.checks, after.checks);
  const policies = differences(before.policies, after.policies);
  const services = differences(before.services, after.services, ({ policyIds }) =>
    policyIds.some((id) => policies.has(id)),
  );
  if (services.size + policies.size + checks.size === 0) return undefined;
  // A service that is told again brings its policies, and they their checks: the SDK never puts parts of two sets together.
  for (const [id, op] of services) {
    if (op === Op.Removed) continue;
    for (const policyId of after.services.get(id)?.policyIds ?? []) {
      if (!policies.has(policyId)) policies.set(policyId, Op.Updated);
    }
  }
  for (const [id, op] of policies) {
    if (op === Op.Removed) continue;
    for (const checkId of after.policies.get(id)?.checkIds ?? []) {
      if (!checks.has(checkId)) checks.set(checkId, Op.Updated);
    }
  }
  return {
    index: after.index,
    previousIndex: before.index,
    services: definitions(services, after.services, serviceDef),
    policies: definitions(policies, after.policies, policyDef),
    postureChecks: definitions(checks, after.checks, checkDef),
  };
}

/** How every check and policy stands. */
export function postureState(view: IdentityView, seq: bigint, now: number): PostureStateChange {
  return {
    seq,
    structuralIndex: view.index,
    generatedAt: timestampFromMs(now),
    checkStates: [...view.checkStates].map(([checkId, { isPassing, timeoutAt }]) => ({
      checkId,
      isPassing,
      ...(timeoutAt === undefined
        ? {}
        : {
            timeoutAt: timestampFromMs(timeoutAt),
            timeoutRemainingSeconds: Math.max(0, Math.floor((timeoutAt - now) / 1000)),
          }),
    })),
    policyStates: [...view.policyStates].map(([policyId, isPassing]) => ({ policyId, isPassing })),
  };
}

/** When a state comes to change by time alone; undefined: never. */
export function statesLapseAt({ checkStates }: IdentityView): number | undefined {
  const ends = [...checkStates.values()].flatMap(({ timeoutAt }) => (timeoutAt === undefined ? [] : [timeoutAt]));
  return ends.length === 0 ? undefined : Math.min(...ends);
}

function differences<T>(
  before: ReadonlyMap<string, T>,
  after: ReadonlyMap<string, T>,
  isTouched: (value: T) => boolean = () => false,
): Map<string, edgeClientPb.Op> {
  const ops = new Map<string, edgeClientPb.Op>();
  for (const [id, value] of after) {
    const known = before.get(id);
    if (known === undefined) ops.set(id, Op.Added);
    else if (isTouched(value) || !isDeepStrictEqual(known, value)) ops.set(id, Op.Updated);
  }
  for (const id of before.keys()) if (!after.has(id)) ops.set(id, Op.Removed);
  return ops;
}

function definitions<T, D>(
  ops: ReadonlyMap<string, edgeClientPb.Op>,
  known: ReadonlyMap<string, T>,
  define: (op: edgeClientPb.Op, value: T) => D,
): (D | { op: edgeClientPb.Op; id: string })[] {
  return [...ops].map(([id, op]) => {
    const value = known.get(id);
    return value === undefined ? { op: Op.Removed, id } : define(op, value);
  });
}

function serviceDef(op: edgeClientPb.Op, { id, name, isEncrypted, configIds, policyIds, configs }: ServiceView) {
  return {
    ...{ op, id, name, encryptionRequired: isEncrypted },
    ...{ configs: [...configIds], policyIds: [...policyIds], configData: configs.map((config) => ({ ...config })) },
  };
}

function policyDef(op: edgeClientPb.Op, { id, type, checkIds }: PolicyView) {
  return { op, id, type: type === "Dial" ? PolicyType.Dial : PolicyType.Bind, postureCheckIds: [...checkIds] };
}

function checkDef(op: edgeClientPb.Op, check: PostureCheck) {
  const { id } = check;
  switch (check.typeId) {
    case "MFA": {
      const { promptOnWake, promptOnUnlock, timeoutSeconds } = check;
      const promptGracePeriodSeconds = PROMPT_GRACE_MS / 1000;
      const prompts = { promptOnWake, promptOnUnlock, promptGracePeriodSeconds };
      return { op, id, type: "MFA", ...prompts, timeoutSeconds: BigInt(timeoutSeconds) };
    }
    // Clients know one form of both.
    case "PROCESS":
      return { op, id, type: "PROCESS_MULTI", semantic: "AllOf", processes: [processOf(check.process)] };
    case "PROCESS_MULTI":
      return { op, id, type: check.typeId, semantic: check.semantic, processes: check.processes.map(processOf) };
    default:
      return { op, id, type: check.typeId };
  }
}

function processOf({ osType, path }: { readonly osType: string; readonly path: string }) {
  return { osType, path };
}
