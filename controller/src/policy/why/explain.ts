import type { Permission } from "@sallyport/wire";
import { authenticationChecks } from "./authentication.ts";
import { type Check, type CheckName, type EntityOf, failed, ok, type Remedy, warning } from "./check.ts";
import type { AccessFacts, FailedDial } from "./facts.ts";
import { hostingChecks, ownHostingCheck } from "./hosting.ts";
import { postureCheck } from "./posture.ts";
import { recentDialCheck } from "./recent-dials.ts";
import { routerChecks } from "./routers.ts";
import { servicePolicyCheck } from "./service-policies.ts";

/** What stands in the way first. */
export interface Problem {
  readonly check: CheckName;
  readonly status: Check["status"];
  readonly code: string;
  readonly message: string;
  readonly remedies?: readonly Remedy[];
}

export interface Explanation {
  /** A dial of this moment, or a bind, comes about as far as the controller can know. */
  readonly allowed: boolean;
  readonly type: Permission;
  readonly identity: EntityOf;
  readonly service: EntityOf;
  readonly at: number;
  readonly checks: readonly Check[];
  readonly firstProblem?: Problem;
  readonly lastFailedDials: readonly FailedDial[];
}

/** Why the identity can or cannot dial, or host, the service: one tree from the login to the last failed dials. Source: docs/why.md. */
export function explain(facts: AccessFacts): Explanation {
  const { type, identity, service, at, dials } = facts;
  const checks = [
    grouped("authentication", authenticationChecks(facts)),
    servicePolicyCheck(facts),
    postureCheck(facts),
    ...routerChecks(facts),
    ...(type === "Dial" ? hostingChecks(facts) : [ownHostingCheck(facts)]),
    recentDialCheck(facts),
  ];
  const problem = firstProblem(checks);
  return {
    allowed: checks.every(({ status }) => status !== "failed"),
    type,
    identity: entityOf("identities", identity),
    service: entityOf("services", service),
    at,
    checks,
    ...(problem && { firstProblem: problem }),
    lastFailedDials: dials.failed,
  };
}

function entityOf(entity: string, { id, name }: { readonly id: string; readonly name: string }): EntityOf {
  return { entity, id, name };
}

/** A check that is no more than its parts: the worst of them decides. */
function grouped(check: CheckName, checks: readonly Check[]): Check {
  const worst = checks.find(({ status }) => status === "failed") ?? checks.find(({ status }) => status === "warning");
  if (worst === undefined) return ok(check, "the identity can log in", { checks });
  const make = worst.status === "failed" ? failed : warning;
  return make(check, worst.code ?? "", worst.message, { checks });
}

/** A failure that stands in the way comes before what the last dial met, and that before what may go wrong. */
function firstProblem(checks: readonly Check[]): Problem | undefined {
  const found =
    checks.find(({ status }) => status === "failed") ??
    checks.find(({ check, status }) => check === "recent-dials" && status === "warning") ??
    checks.find(({ status }) => status === "unknown") ??
    checks.find(({ status }) => status === "warning");
  if (found === undefined) return undefined;
  const { check, status, code = "", message, remedies } = deepest(found);
  return { check, status, code, message, ...(remedies && { remedies }) };
}

/** The part of a check that made it what it is; the check itself where it says more than its parts. */
function deepest(found: Check): Check {
  if (found.remedies !== undefined) return found;
  const part = found.checks?.find(({ status }) => status === found.status);
  return part === undefined ? found : deepest(part);
}
