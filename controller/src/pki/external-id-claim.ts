/**
 * Which part of a certificate is the identity's `externalId` (docs/protocol/certificate-login.md, "Claims").
 * Everything here is a function of its arguments.
 */
import type { X509Certificate } from "node:crypto";
import { x509 } from "@sallyport/wire";

export type ClaimLocation = "COMMON_NAME" | "SAN_URI" | "SAN_EMAIL";
export type ClaimMatcher = "ALL" | "PREFIX" | "SUFFIX" | "SCHEME";
export type ClaimParser = "NONE" | "SPLIT";

/** A claim that is complete and consistent: what {@link completeClaim} answers. */
export interface ExternalIdClaim {
  readonly location: ClaimLocation;
  readonly matcher: ClaimMatcher;
  /** Empty with matcher `ALL`. */
  readonly matcherCriteria: string;
  readonly parser: ClaimParser;
  /** Empty with parser `NONE`. */
  readonly parserCriteria: string;
  /** 0-based, into the parts of all values that matched. */
  readonly index: number;
}

/** A claim as a request gives it. */
export type RequestedClaim = { readonly [K in keyof ExternalIdClaim]?: ExternalIdClaim[K] | null | undefined };

/** What is wrong with a requested claim. */
export interface ClaimProblem {
  readonly field: keyof ExternalIdClaim;
  readonly reason: string;
  readonly value: unknown;
}

const MATCHERS: Readonly<Record<ClaimLocation, readonly ClaimMatcher[]>> = {
  COMMON_NAME: ["ALL", "PREFIX", "SUFFIX"],
  SAN_EMAIL: ["ALL", "PREFIX", "SUFFIX"],
  SAN_URI: ["ALL", "SCHEME"],
};

/**
 * Checks a claim before it is stored, so that none is stored that could never name an identity, or name one by accident.
 * @returns undefined when there is no location: nothing was asked for
 */
export function completeClaim(
  requested: RequestedClaim,
): { readonly claim: ExternalIdClaim } | { readonly problem: ClaimProblem } | undefined {
  const { location, matcher, parser } = requested;
  const matcherCriteria = requested.matcherCriteria ?? "";
  const parserCriteria = requested.parserCriteria ?? "";
  const index = requested.index ?? 0;
  const problem = (field: keyof ExternalIdClaim, reason: string) => ({
    problem: { field, reason, value: requested[field] },
  });
  if (location === undefined || location === null) {
    const rest = { ...requested, index: requested.index || undefined };
    const stray = Object.values(rest).some((value) => value !== undefined && value !== null && value !== "");
    return stray ? problem("location", "location is required when another part of the claim is given") : undefined;
  }
  const fitting = MATCHERS[location];
  if (fitting === undefined) return problem("location", "location must be COMMON_NAME, SAN_URI or SAN_EMAIL");
  if (matcher === undefined || matcher === null || !fitting.includes(matcher)) {
    return problem("matcher", `matcher must be one of ${fitting.join(", ")} for location ${location}`);
  }
  if (matcher !== "ALL" && matcherCriteria === "") {
    return problem("matcherCriteria", `matcherCriteria is required for matcher ${matcher}`);
  }
  if (parser !== "NONE" && parser !== "SPLIT") return problem("parser", "parser must be NONE or SPLIT");
  if (parser === "SPLIT" && parserCriteria === "") {
    return problem("parserCriteria", "parserCriteria is required for parser SPLIT");
  }
  if (!Number.isSafeInteger(index) || index < 0) return problem("index", "index must be 0 or more");
  return {
    claim: {
      location,
      matcher,
      matcherCriteria,
      parser,
      parserCriteria,
      index,
    },
  };
}

/** What a claim is taken from. */
export type CertificateNames = Readonly<Record<ClaimLocation, readonly string[]>>;

/** The names of a certificate by location, in its order. @throws Error when its extensions cannot be read */
function certificateNames(certificate: X509Certificate): CertificateNames {
  const parsed = new x509.X509Certificate(certificate.raw);
  const names = parsed.getExtension(x509.SubjectAlternativeNameExtension)?.names.items ?? [];
  const ofType = (type: string) => names.filter((name) => name.type === type).map((name) => name.value);
  return { COMMON_NAME: parsed.subjectName.getField("CN"), SAN_URI: ofType("url"), SAN_EMAIL: ofType("email") };
}

/** The value that the claim selects; undefined when the certificate has none there, or an empty or unprintable one. */
export function claimedValue(claim: ExternalIdClaim, names: CertificateNames): string | undefined {
  const parts = names[claim.location].flatMap((value) => {
    const matched = match(claim, value);
    if (matched === undefined) return [];
    return claim.parser === "SPLIT" ? matched.split(claim.parserCriteria) : [matched];
  });
  const value = parts[claim.index];
  return value === undefined || value === "" || !isPrintable(value) ? undefined : value;
}

/** {@link claimedValue} of a certificate; undefined also for one whose names cannot be read. */
export function externalIdOf(certificate: X509Certificate, claim: ExternalIdClaim): string | undefined {
  let names: CertificateNames;
  try {
    names = certificateNames(certificate);
  } catch {
    // A certificate that cannot be read claims nothing.
    return undefined;
  }
  return claimedValue(claim, names);
}

function match({ matcher, matcherCriteria }: ExternalIdClaim, value: string): string | undefined {
  switch (matcher) {
    case "ALL":
      return value;
    case "PREFIX":
      return value.startsWith(matcherCriteria) ? value.slice(matcherCriteria.length) : undefined;
    case "SUFFIX":
      return value.endsWith(matcherCriteria) ? value.slice(0, value.length - matcherCriteria.length) : undefined;
    case "SCHEME":
      return value.slice(0, value.indexOf(":") + 1).toLowerCase() === `${matcherCriteria.toLowerCase()}:`
        ? value
        : undefined;
  }
}

/** Control characters have no place in a name, and the store cannot keep all of them. */
export function isPrintable(text: string): boolean {
  return text.isWellFormed() && !/\p{Cc}/u.test(text);
}
