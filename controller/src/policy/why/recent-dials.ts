import { type Check, ok, timeText, warning } from "./check.ts";
import type { AccessFacts, FailedDial } from "./facts.ts";
import { inWords } from "./remedies.ts";

const REFUSED = "Start the host's server, or correct its port in the config host.v1.";
const UNRESOLVED = "Correct the host name in the config host.v1, or the name server of the host.";

/** Failures that no other check can foresee: what happened at the host, or on the way there. */
const AT_HOST: Readonly<Record<string, string>> = {
  ROUTER_ERR_GENERIC: "Look at the host's log.",
  ROUTER_ERR_INVALID_TERMINATOR: "The host has gone: wait until it connects again, or start it.",
  ROUTER_ERR_MISCONFIGURED_TERMINATOR: "Correct the address of the terminator.",
  ROUTER_ERR_DIAL_TIMED_OUT: "The host's server does not answer: check its address and firewalls.",
  ROUTER_ERR_CONN_REFUSED: REFUSED,
  ROUTER_ERR_REJECTED_BY_APPLICATION: `${REFUSED} The host's log has the reason.`,
  ROUTER_ERR_DNS_RESOLUTION_FAILED: UNRESOLVED,
  ROUTER_ERR_PORT_NOT_ALLOWED: "Allow the port in the config host.v1.",
  ROUTER_ERR_INVALID_LINK_DESTINATION: "A link has just failed: try again.",
  ROUTER_ERR_RESOURCES_NOT_AVAILABLE: "A router has no resources left: look at its log.",
  ROUTER_RESPONSE_TIMEOUT: "A router or the host did not answer in time: look at their logs.",
  PATH_MISSING_LINK: "A link has just failed: try again.",
  ENCRYPTION_DATA_MISSING: "Let the dialing program encrypt: it has to send a public key.",
  SERVER_TOO_MANY_REQUESTS: "End sessions of the identity, or log it out.",
};

/** Words of hosts in Node and Go for why their server cannot be reached. A host that is an application refuses without a code. */
const SAID_BY_HOST: readonly (readonly [RegExp, string])[] = [
  [/ECONNREFUSED|connection refused/i, REFUSED],
  [/ENOTFOUND|EAI_AGAIN|no such host/i, UNRESOLVED],
];
const FROM_HOST: ReadonlySet<string> = new Set(["ROUTER_ERR_GENERIC", "ROUTER_ERR_REJECTED_BY_APPLICATION"]);

function adviceOn({ code, message }: FailedDial): string | undefined {
  const said = FROM_HOST.has(code) ? SAID_BY_HOST.find(([words]) => words.test(message)) : undefined;
  return said?.[1] ?? AT_HOST[code];
}

/** Did the last dial fail in a way that what is known now does not explain? */
export function recentDialCheck({ dials }: AccessFacts): Check {
  const { failed, hasSucceededSince } = dials;
  const [last] = failed;
  if (last === undefined) return ok("recent-dials", "no failed dial is remembered");
  if (hasSucceededSince) return ok("recent-dials", "a dial has succeeded since the last one that failed");
  return (
    reported(last) ??
    ok("recent-dials", `the last dial failed at ${timeText(last.at)}, for a reason that the checks above cover`)
  );
}

function reported(failure: FailedDial): Check | undefined {
  const { at, code, message } = failure;
  const advice = adviceOn(failure);
  if (advice === undefined) return undefined;
  const text = `the last dial failed at ${timeText(at)}: ${message}`;
  return warning("recent-dials", code, text, { details: { at: timeText(at), message }, remedies: [inWords(advice)] });
}
