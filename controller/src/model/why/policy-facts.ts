import { reportedAt } from "@sallyport/posture";
import type { Permission } from "@sallyport/wire";
import { sql } from "kysely";
import type { PolicyIndex, ServicePolicy } from "../../policy/policy-index.ts";
import type { FailingCheck, PolicyFacts, PostureFacts, ServicePolicyRef } from "../../policy/why/facts.ts";
import type { ModelContext } from "../context.ts";
import type { IdentityRow } from "../identity/identities.ts";
import type { ServiceRow } from "../network/services.ts";
import { describeFailure } from "../posture/failed-requests.ts";
import type { PolicyFailure, Posture } from "../posture/posture.ts";
import type { IdentitySession } from "./authentication-facts.ts";
import type { ShownNames } from "./shown-names.ts";

/** Policies that are named of each kind. */
const MAX_SHOWN = 5;

/** Service policies around an identity and a service, by what they select; still without names. */
export interface NearPolicies {
  readonly granting: readonly ServicePolicy[];
  readonly ofOtherType: readonly ServicePolicy[];
  readonly missingIdentity: readonly ServicePolicy[];
  readonly missingService: readonly ServicePolicy[];
}

type Subjects = { readonly identity: IdentityRow; readonly service: ServiceRow; readonly type: Permission };

/** To be asked at once: the index must not be kept across a wait. */
export function nearPolicies(index: PolicyIndex, { identity, service, type }: Subjects): NearPolicies {
  const granting = index.granting(identity, service.id, type);
  if (granting.length > 0) return { granting, ofOtherType: [], missingIdentity: [], missingService: [] };
  const ofType = (policies: readonly ServicePolicy[]) => policies.filter((policy) => policy.type === type);
  return {
    granting,
    ofOtherType: index.granting(identity, service.id, type === "Dial" ? "Bind" : "Dial"),
    missingIdentity: nearest(
      ofType(index.policiesOfService(service.id)),
      ({ identities }) => identities.attrs,
      identity,
    ),
    missingService: nearest(ofType(index.policiesOf(identity)), ({ services }) => services.attrs, service),
  };
}

/** Those first for which the fewest role attributes are missing; a list of ids alone comes last. */
function nearest(
  policies: readonly ServicePolicy[],
  wanted: (policy: ServicePolicy) => readonly string[],
  { attrs }: { readonly attrs: readonly string[] },
): ServicePolicy[] {
  const missing = (policy: ServicePolicy) => {
    const all = wanted(policy);
    if (all.length === 0) return Number.POSITIVE_INFINITY;
    const lacking = all.filter((attr) => !attrs.includes(attr)).length;
    return policy.semantic === "AllOf" ? lacking : Math.min(lacking, 1);
  };
  return policies
    .map((policy) => ({ policy, distance: missing(policy) }))
    .sort((a, b) => (a.distance === b.distance ? 0 : a.distance - b.distance))
    .slice(0, MAX_SHOWN)
    .map(({ policy }) => policy);
}

export async function policyFacts(
  ctx: ModelContext,
  near: NearPolicies,
  names: ShownNames,
  { identity, service, type }: Subjects,
): Promise<PolicyFacts> {
  const named = ({ id }: ServicePolicy) => names.of("service_policy", id);
  const withSelectors = (policy: ServicePolicy): ServicePolicyRef => {
    const { semantic, identities, services } = policy;
    return { ...named(policy), semantic, identities, services };
  };
  const isKeptAlive =
    identity.is_admin && near.granting.length === 0 && (await hasSession(ctx, identity, service, type));
  return {
    granting: near.granting.slice(0, MAX_SHOWN).map(named),
    ofOtherType: near.ofOtherType.slice(0, MAX_SHOWN).map(named),
    missingIdentity: near.missingIdentity.map(withSelectors),
    missingService: near.missingService.map(withSelectors),
    isKeptAlive,
  };
}

async function hasSession(ctx: ModelContext, identity: IdentityRow, service: ServiceRow, type: Permission) {
  const { rows } = await sql`SELECT 1 FROM session
    WHERE identity_id = ${identity.id} AND service_id = ${service.id} AND type = ${type} LIMIT 1`.execute(ctx.store.db);
  return rows.length > 0;
}

/** What posture makes of the granting policies; the names of these follow. */
export interface JudgedPosture {
  readonly asking: number;
  readonly failures: readonly { readonly policyId: string; readonly checks: readonly FailingCheck[] }[];
  readonly isDecidedByRouters: boolean;
}

interface PostureQuestion extends Subjects {
  readonly posture: Posture;
  readonly sessions: readonly IdentitySession[];
  /** Every edge router that the identity could use evaluates posture itself. */
  readonly doRoutersCheck: boolean;
}

/** To be asked at once, with posture that is ready for the identity. An identity that is not logged in is judged by what its device reported before. */
export function judgedPosture(
  ctx: ModelContext,
  index: PolicyIndex,
  granting: readonly ServicePolicy[],
  { identity, service, type, posture, sessions, doRoutersCheck }: PostureQuestion,
): JudgedPosture {
  const asking = granting.filter((policy) => index.checksOf(policy).length > 0).length;
  const passing: JudgedPosture = { asking, failures: [], isDecidedByRouters: false };
  if (asking === 0) return passing;
  const now = ctx.now().getTime();
  const describe = (failures: readonly PolicyFailure[], apiSessionId: string) => {
    const known = posture.reports.of(identity.id, apiSessionId);
    return failures.map(({ policyId, checks }) => ({
      policyId,
      checks: checks.map((check): FailingCheck => {
        const { actualValue, expectedValue } = describeFailure(check, known, now);
        const at = reportedAt(check, known);
        const { id, name, typeId } = check;
        return {
          id,
          name,
          typeId,
          actual: actualValue,
          expected: expectedValue,
          ...(at !== undefined && { reportedAt: at }),
        };
      }),
    }));
  };
  if (identity.type_id === "Router") {
    if (index.grantingToRouter(identity, service.id, type).length > 0) return passing;
    const failures = granting.map((policy) => ({ policyId: policy.id, checks: index.checksOf(policy) }));
    return { asking, failures: describe(failures, ""), isDecidedByRouters: false };
  }
  const complete = sessions.filter(({ isTotpOpen }) => !isTotpOpen);
  const judged = (complete.length > 0 ? complete : sessions).map(({ id, kind }) => ({
    id,
    failures: posture.failuresIn(index, identity, id, service.id, type),
    isDecidedByRouters: kind === "oidc" && doRoutersCheck,
  }));
  if (judged.some(({ failures }) => failures.length === 0)) return passing;
  const first = judged.find(({ isDecidedByRouters }) => isDecidedByRouters) ?? judged[0];
  const { id, failures, isDecidedByRouters } = first ?? {
    id: "",
    failures: posture.failuresIn(index, identity, "", service.id, type),
    isDecidedByRouters: false,
  };
  return { asking, failures: describe(failures, id), isDecidedByRouters };
}

export function postureFacts({ asking, failures, isDecidedByRouters }: JudgedPosture, names: ShownNames): PostureFacts {
  return {
    asking,
    failures: failures.map(({ policyId, checks }) => ({
      policy: names.of("service_policy", policyId),
      checks,
    })),
    isDecidedByRouters,
  };
}
