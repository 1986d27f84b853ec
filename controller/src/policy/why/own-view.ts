import type { Check, CheckName, EntityOf, Remedy } from "./check.ts";
import type { Explanation, Problem } from "./explain.ts";

/** What an identity is told of a check without a problem. */
const FINE: Readonly<Record<CheckName, string>> = {
  authentication: "you are logged in",
  "identity-enabled": "your identity is enabled",
  credential: "you can log in",
  "api-session": "you are logged in",
  "second-factor": "no second factor is missing",
  "service-policy": "a service policy grants the service",
  posture: "no posture check is in the way",
  "posture-check": "the posture check passes",
  "edge-router-policy": "you may use edge routers",
  "service-edge-router-policy": "the service may use edge routers",
  "common-routers": "you and the service may use the same edge routers",
  "edge-routers": "an edge router can be used",
  "edge-router": "the edge router can be used",
  terminators: "the service is hosted",
  terminator: "the terminator can be used",
  path: "your edge routers reach a router of the host",
  encryption: "nothing is wrong with end-to-end encryption",
  hosting: "you host the service",
  "recent-dials": "no recent dial failed for a reason of its own",
};

/** What an identity is told of a problem: a code, and a sentence without names of what it cannot list itself. */
type Shown = readonly [code: string, text: string];
const NO_POLICY: Shown = ["NO_SERVICE_POLICY", "no service policy of this type grants the service to you"];
const NO_ROUTER: Shown = ["NO_EDGE_ROUTER_POLICY", "no edge router policy gives your identity an enabled edge router"];
const NO_SERVICE_ROUTER: Shown = [
  "NO_SERVICE_EDGE_ROUTER_POLICY",
  "no service edge router policy gives the service an enabled edge router",
];
const NOT_HOSTED: Shown = ["NOT_HOSTED", "no application hosts the service now"];
const own = (code: string, text: string): readonly [string, Shown] => [code, [code, text]];

const PROBLEMS: ReadonlyMap<string, Shown> = new Map<string, Shown>([
  own("IDENTITY_DISABLED", "your identity is disabled"),
  own("NO_CREDENTIAL", "your identity has nothing left to log in with"),
  own("NOT_ENROLLED", "your identity has not enrolled"),
  own("ENROLLMENT_EXPIRED", "your enrollment has expired"),
  own("CERTIFICATE_NOT_VALID", "your certificate is not valid: the next login will be refused"),
  own("METHOD_NOT_ALLOWED", "your way to log in is not allowed any more: the next login will be refused"),
  own("NOT_LOGGED_IN", "you are not logged in"),
  own("SECOND_FACTOR_MISSING", "your one-time code is missing"),
  own("SECOND_FACTOR_NOT_ENROLLED", "you have to enroll an authenticator app"),
  ["IDENTITY_NOT_SELECTED", NO_POLICY],
  ["SERVICE_NOT_SELECTED", NO_POLICY],
  ["OTHER_TYPE_ONLY", NO_POLICY],
  ["NO_SERVICE_POLICY", NO_POLICY],
  own("POSTURE_CHECK_FAILED", "your device does not meet a posture check"),
  own(
    "POSTURE_AT_ROUTERS",
    "the edge routers evaluate your posture checks, and the controller does not know the result",
  ),
  own("POSTURE_NOT_FOR_ROUTERS", "a tunneling router reports no posture, which the service policies want"),
  own("POSTURE_DIFFERS", "the posture check fails by what your device reported"),
  own("POSTURE_NOT_REPORTED", "the posture check fails: your program reported nothing for it"),
  ["NO_EDGE_ROUTER_POLICY", NO_ROUTER],
  ["EDGE_ROUTER_POLICY_EMPTY", NO_ROUTER],
  ["NO_SERVICE_EDGE_ROUTER_POLICY", NO_SERVICE_ROUTER],
  ["SERVICE_EDGE_ROUTER_POLICY_EMPTY", NO_SERVICE_ROUTER],
  own("NO_COMMON_EDGE_ROUTER", "you may use edge routers that the service may not, and the other way around"),
  own("ROUTER_NOT_FOR_SERVICE", "the service may not use your router"),
  own("EDGE_ROUTERS_OFFLINE", "every edge router that you and the service may use is offline"),
  own("EDGE_ROUTER_OFFLINE", "the edge router is offline"),
  own("NO_EDGE_LISTENER", "the edge router has no listener for applications"),
  ["NO_BIND_POLICY", NOT_HOSTED],
  ["NO_IDENTITY_MAY_HOST", NOT_HOSTED],
  ["NOT_HOSTED", NOT_HOSTED],
  own("INSTANCE_ID_NEEDED", "every host has an instance id, which a dial has to name"),
  own("HOST_ROUTERS_OFFLINE", "the edge routers of the hosts are offline"),
  own("INVALID_STRATEGY", "the service has a terminator strategy that the controller does not know"),
  own("NO_PATH", "no link leads from your edge routers to a router of the host"),
  own("NO_PATH_FROM_SOME", "no link leads from some of your edge routers to a router of the host"),
  own("HOST_DOES_NOT_ENCRYPT", "the service requires end-to-end encryption, and no host takes part in it"),
  own("SOME_HOSTS_DO_NOT_ENCRYPT", "the service requires end-to-end encryption, and some hosts take no part in it"),
  own("DOES_NOT_HOST", "you may host the service, and do not host it now"),
]);

/** Disabled routers of either side are not named apart from missing policies. */
function shownProblem({ check, code }: Check): Shown | undefined {
  if (code === "EDGE_ROUTERS_DISABLED") return check === "edge-router-policy" ? NO_ROUTER : NO_SERVICE_ROUTER;
  return PROBLEMS.get(code ?? "");
}

/** Checks whose parts the identity may know: its own login, its own device, and the routers that the Client API lists for it. */
const WITH_PARTS: ReadonlySet<CheckName> = new Set(["authentication", "posture", "edge-routers"]);
/** Checks whose remedies are the identity's own to follow. */
const OWN_REMEDIES: ReadonlySet<CheckName> = new Set(["second-factor", "posture-check", "recent-dials", "hosting"]);

/**
 * What the identity itself gets to read of an {@link Explanation}: whether, and the code, and no names, ids or counts of policies, hosts and others' routers.
 * Everything that is not allowed here is left out, so that a new field of a check shows nothing. Source: docs/why.md, "Your own access".
 */
export function ownView(explanation: Explanation): Explanation {
  const checks = explanation.checks.map(ownCheck);
  const { firstProblem, ...rest } = explanation;
  const problem = firstProblem && ownProblem(firstProblem);
  return { ...rest, checks, ...(problem && { firstProblem: problem }) };
}

function ownCheck(check: Check): Check {
  const { status } = check;
  // The failures of its own dials.
  if (check.check === "recent-dials") return check;
  const parts = WITH_PARTS.has(check.check) && check.checks ? { checks: check.checks.map(ownCheck) } : {};
  if (status === "skipped")
    return { check: check.check, status, message: "not looked at, because of an earlier failure" };
  const shown = shownProblem(check);
  if (status === "ok" || shown === undefined) {
    return { check: check.check, status: "ok", message: FINE[check.check], ...about(check), ...parts };
  }
  const [code, message] = shown;
  return { check: check.check, status, code, message, ...about(check), remedies: ownRemedies(check, code), ...parts };
}

/** A router that the Client API lists, or a posture check by the id that it shows, with the identity's own report. */
function about({ check, entities, details }: Check): Pick<Check, "entities" | "details"> {
  if (check === "edge-router" && entities !== undefined) return { entities };
  if (check !== "posture-check") return {};
  const { typeId, actual, reportedAt } = details ?? {};
  return {
    entities: (entities ?? []).map(({ entity, id }): EntityOf => ({ entity, id, name: id })),
    details: { typeId, actual, ...(reportedAt !== undefined && { reportedAt }) },
  };
}

function ownRemedies({ check, remedies }: Pick<Check, "check" | "remedies">, code: string): Remedy[] {
  if (OWN_REMEDIES.has(check)) return (remedies ?? []).map(({ text }) => ({ text }));
  return [{ text: `Ask an administrator of the network, and name the code ${code}.` }];
}

function ownProblem(problem: Problem): Problem | undefined {
  if (problem.check === "recent-dials") return problem;
  const shown = shownProblem(problem);
  if (shown === undefined) return undefined;
  const [code, message] = shown;
  const { check, status } = problem;
  return { check, status, code, message, remedies: ownRemedies(problem, code) };
}
