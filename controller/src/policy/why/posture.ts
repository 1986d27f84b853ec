import { type Check, entities, failed, namesOf, ok, quoted, skipped, timeText, unknown } from "./check.ts";
import type { AccessFacts, FailingCheck } from "./facts.ts";
import { inWords } from "./remedies.ts";

/** Does the device meet the posture checks of a granting policy? */
export function postureCheck({ identity, policies, posture }: AccessFacts): Check {
  const { asking, failures, isDecidedByRouters } = posture;
  if (policies.granting.length === 0) return skipped("posture", "no service policy grants the service");
  if (failures.length === 0) {
    return ok(
      "posture",
      asking === 0 ? "no granting policy asks for posture checks" : "a granting policy passes whole",
    );
  }
  const checks = distinct(failures.flatMap((failure) => failure.checks)).map(failingCheck);
  const extra = {
    entities: entities(
      "service-policies",
      failures.map(({ policy }) => policy),
    ),
    checks,
  };
  if (identity.isRouter) {
    const message = "a tunneling router reports no posture, so a policy with posture checks grants it nothing";
    return failed("posture", "POSTURE_NOT_FOR_ROUTERS", message, {
      ...extra,
      remedies: [inWords("Create a service policy without posture checks for the router.")],
    });
  }
  if (isDecidedByRouters) {
    const message = "the edge routers evaluate the posture checks of this login, and none of them said what it knows";
    return unknown("posture", "POSTURE_AT_ROUTERS", message, { entities: extra.entities });
  }
  const names = namesOf(distinct(failures.flatMap((failure) => failure.checks)));
  return failed("posture", "POSTURE_CHECK_FAILED", `the device does not meet the posture check ${names}`, extra);
}

function failingCheck({ id, name, typeId, actual, expected, reportedAt }: FailingCheck): Check {
  const isReported = reportedAt !== undefined;
  const message = isReported
    ? `${quoted(name)} (${typeId}) fails by the report of ${timeText(reportedAt)}`
    : `${quoted(name)} (${typeId}) fails: nothing was reported`;
  const details = { typeId, actual, expected, ...(isReported && { reportedAt: timeText(reportedAt) }) };
  const remedy = inWords(
    typeId === "MFA"
      ? "Enter a one-time code in the program."
      : isReported
        ? "Change the device, or the posture check."
        : "Use a client that reports posture: docs/compatibility.md says which do.",
  );
  const code = isReported ? "POSTURE_DIFFERS" : "POSTURE_NOT_REPORTED";
  return failed("posture-check", code, message, {
    entities: entities("posture-checks", [{ id, name }]),
    details,
    remedies: [remedy],
  });
}

function distinct(checks: readonly FailingCheck[]): FailingCheck[] {
  return [...new Map(checks.map((check) => [check.id, check])).values()];
}
