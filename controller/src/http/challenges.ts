/** What a 401 says about authenticating (RFC 9110, section 11.6.1; for access tokens RFC 6750, section 3). */
import { type ApiError, apiError } from "@sallyport/api";

/** Why a request has no session, as far as its caller learns it. */
export type RefusalReason = "missing" | "invalid" | "expired";

/** A request whose session was not found. */
export interface Refusal {
  readonly refused: RefusalReason;
  /** What the request carried; `any` when it carried nothing, and could have carried either. */
  readonly scheme: "zt-session" | "bearer" | "any";
  /** For the log. */
  readonly detail?: string;
}

const DESCRIPTIONS: Readonly<Record<RefusalReason, string>> = {
  missing: "no matching token was provided",
  invalid: "token is invalid",
  expired: "token is expired",
};
const SCHEMES = { "zt-session": ["zt-session", "zt-session"], bearer: ["Bearer", "openziti-oidc"] } as const;

/** The value of `WWW-Authenticate`: a challenge for each scheme that the caller may use. */
export function challengeOf({ refused, scheme }: Refusal): string {
  const schemes = scheme === "any" ? (["zt-session", "bearer"] as const) : [scheme];
  return schemes
    .map((each) => {
      const [name, realm] = SCHEMES[each];
      return `${name} realm="${realm}", error="${refused}", error_description="${DESCRIPTIONS[refused]}"`;
    })
    .join(", ");
}

/** The 401 for a request without a session. */
export function refusedAs(refusal: Refusal): ApiError {
  const detail = refusal.detail ?? (refusal.refused === "missing" ? "no session" : "no valid session");
  return apiError("UNAUTHORIZED", undefined, { detail, headers: { "www-authenticate": challengeOf(refusal) } });
}
