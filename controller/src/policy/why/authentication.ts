import { type Check, entities, failed, ok, skipped, timeText, warning } from "./check.ts";
import type { AccessFacts, AuthenticationFacts, Credential, Named } from "./facts.ts";
import { enableIdentity, inWords, reEnroll, replaceCertificate } from "./remedies.ts";

/** Can the identity log in, and has it? */
export function authenticationChecks({ identity, authentication, at }: AccessFacts): Check[] {
  const enabled = enabledCheck(authentication, identity.id);
  if (identity.isRouter) {
    const message = "a tunneling router is authenticated by its control channel";
    return [enabled, ok("credential", message)];
  }
  return [enabled, credentialCheck(authentication, at), sessionCheck(authentication), factorCheck(authentication)];
}

function enabledCheck({ disabled }: AuthenticationFacts, id: string): Check {
  if (disabled === undefined) return ok("identity-enabled", "the identity is enabled");
  const { since, until } = disabled;
  const end = until === undefined ? "until an administrator enables it" : `until ${timeText(until)}`;
  return failed("identity-enabled", "IDENTITY_DISABLED", `the identity is disabled since ${timeText(since)}, ${end}`, {
    remedies: [enableIdentity(id)],
  });
}

const METHODS = { cert: "certificate", updb: "password" } as const;

function credentialCheck(facts: AuthenticationFacts, at: number): Check {
  const { authenticators, isProvedByOthers, apiSessions } = facts;
  const usable = authenticators.filter(({ refusal }) => refusal === undefined);
  if (usable.length > 0) {
    const methods = [...new Set(usable.map(({ method }) => METHODS[method]))];
    return ok("credential", `it can log in by ${methods.join(" or ")}`);
  }
  if (isProvedByOthers) return ok("credential", "it can log in by an external signer or certificate authority");
  const problem = authenticators.length === 0 ? notEnrolled(facts, at) : refusedCredentials(facts, at);
  // What is open already needs no login.
  if (apiSessions.length > 0 && problem.status === "failed") return { ...problem, status: "warning" };
  return problem;
}

function notEnrolled({ enrollments }: AuthenticationFacts, at: number): Check {
  const latest = enrollments.toSorted((a, b) => b.expiresAt - a.expiresAt)[0];
  if (latest === undefined) {
    return failed("credential", "NO_CREDENTIAL", "the identity has no authenticator and no enrollment", {
      remedies: [inWords("Create an enrollment for the identity, and enroll its program with the token.")],
    });
  }
  const end = timeText(latest.expiresAt);
  if (latest.expiresAt <= at) {
    return failed(
      "credential",
      "ENROLLMENT_EXPIRED",
      `the identity has not enrolled, and its enrollment expired ${end}`,
      {
        remedies: [inWords("Refresh the enrollment, and enroll the program with the new token.")],
      },
    );
  }
  return failed(
    "credential",
    "NOT_ENROLLED",
    `the identity has not enrolled yet; its enrollment is valid until ${end}`,
    {
      remedies: [inWords("Enroll the program with the token of the enrollment.")],
    },
  );
}

function refusedCredentials({ authenticators, policy }: AuthenticationFacts, at: number): Check {
  const untimely = authenticators.find(({ refusal }) => refusal === "expired" || refusal === "not yet valid");
  if (untimely !== undefined) return untimelyCertificate(untimely, policy, at);
  const methods = [...new Set(authenticators.map(({ method }) => METHODS[method]))].join(" and ");
  const message = `its authentication policy does not allow a login by ${methods}, and it has nothing else`;
  return failed("credential", "METHOD_NOT_ALLOWED", message, {
    entities: entities("auth-policies", [policy]),
    remedies: [inWords("Allow the method in the authentication policy, or enroll the identity by another one.")],
  });
}

/** One of three may be wrong: the certificate, or the clock of its issuer, or that of this controller. */
function untimelyCertificate(
  { id, refusal, startsAt, endsAt, authority }: Credential,
  policy: Named,
  at: number,
): Check {
  const isExpired = refusal === "expired";
  const end = endsAt === undefined ? "" : ` at ${timeText(endsAt)}`;
  const start = startsAt === undefined ? "yet" : `before ${timeText(startsAt)}`;
  const dates = isExpired ? `expired${end}` : `is not valid ${start}: check clocks`;
  const message = `its certificate ${dates}; the controller's clock shows ${timeText(at)}, and its authentication policy wants a valid one`;
  const renewal = authority === undefined ? reEnroll(id, at) : replaceCertificate(authority);
  const clocks = inWords("Correct the clock of the controller, or of what issued the certificate.");
  return failed("credential", "CERTIFICATE_NOT_VALID", message, {
    entities: entities("auth-policies", [policy]),
    remedies: isExpired ? [renewal] : [clocks, renewal],
  });
}

function sessionCheck(facts: AuthenticationFacts): Check {
  const [newest] = facts.apiSessions;
  if (newest !== undefined) return ok("api-session", `it is logged in since ${timeText(newest.since)}`);
  if (lacksFactor(facts)) return skipped("api-session", "a login needs a one-time code first");
  const message = "the identity is not logged in: its program is not running, or cannot log in";
  return warning("api-session", "NOT_LOGGED_IN", message, {
    remedies: [inWords("Start the program; its log says why a login fails.")],
  });
}

/** No login can be completed: nothing makes the code that it needs. */
function lacksFactor({ policy, isTotpEnrolled }: AuthenticationFacts): boolean {
  return policy.requiresTotp && !isTotpEnrolled;
}

function factorCheck(facts: AuthenticationFacts): Check {
  const { apiSessions, isTotpEnrolled } = facts;
  const { requiredSigner } = facts.policy;
  if (apiSessions.some(({ isTotpOpen }) => !isTotpOpen)) {
    if (requiredSigner === undefined) return ok("second-factor", "no second factor is missing");
    return ok(
      "second-factor",
      "every request has to carry a token of an external signer, which only its program knows",
    );
  }
  if (lacksFactor(facts)) {
    const message = "its authentication policy wants a one-time code, and no authenticator app is enrolled";
    return failed("second-factor", "SECOND_FACTOR_NOT_ENROLLED", message, {
      remedies: [inWords("Enroll an authenticator app in the program.")],
    });
  }
  if (apiSessions.length > 0) {
    const message = "it is logged in, and the one-time code is missing";
    return failed("second-factor", "SECOND_FACTOR_MISSING", message, {
      remedies: [
        inWords(
          isTotpEnrolled
            ? "Enter the one-time code."
            : "Enroll an authenticator app in the program, and enter its code.",
        ),
      ],
    });
  }
  return skipped("second-factor", "there is no API session to look at");
}
