import { expect, it } from "vitest";
import { challengeOf, type Refusal, refusedAs } from "./challenges.ts";

const BEARER = 'Bearer realm="openziti-oidc"';
const SESSION = 'zt-session realm="zt-session"';

it.each<[Refusal, string]>([
  [
    { refused: "missing", scheme: "any" },
    `${SESSION}, error="missing", error_description="no matching token was provided", ${BEARER}, error="missing", error_description="no matching token was provided"`,
  ],
  [
    { refused: "missing", scheme: "zt-session" },
    `${SESSION}, error="missing", error_description="no matching token was provided"`,
  ],
  [{ refused: "invalid", scheme: "zt-session" }, `${SESSION}, error="invalid", error_description="token is invalid"`],
  [{ refused: "invalid", scheme: "bearer" }, `${BEARER}, error="invalid", error_description="token is invalid"`],
  [{ refused: "expired", scheme: "bearer" }, `${BEARER}, error="expired", error_description="token is expired"`],
])("RFC 9110 11.6.1: %o is a challenge", (refusal, text) => {
  expect(challengeOf(refusal)).toBe(text);
});

it("what the log gets is no part of the answer", () => {
  const error = refusedAs({ refused: "invalid", scheme: "bearer", detail: "token j is revoked" });
  expect(error).toMatchObject({ status: 401, code: "UNAUTHORIZED", detail: "token j is revoked" });
  expect(JSON.stringify([error.headers, error.cause, error.message])).not.toContain("revoked");
});
