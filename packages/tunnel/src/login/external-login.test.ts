import { expect, test } from "vitest";
import { describedToken } from "./external-login.ts";

const tokenOf = (claims: unknown) => `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.c2lnbmF0dXJl`;
const now = Math.floor(Date.now() / 1_000);
const claims = { sub: "alice", iss: "https://idp.example", aud: ["a", "b"], exp: now + 600 };

test.each([
  [
    "what a signer looks at",
    claims,
    'the subject "alice", the issuer "https://idp.example" and the audience ["a","b"]',
  ],
  ["a claim that is missing", { sub: "alice" }, 'the subject "alice", the issuer (none) and the audience (none)'],
  ["an end that is over", { ...claims, exp: now - 120 }, ", and ended "],
  ["a subject that moves the cursor", { ...claims, sub: "a\u202eb" }, 'the subject "ab"'],
])("a refused token is described by %s", (_what, payload, text) => {
  expect(describedToken(tokenOf(payload))).toContain(text);
});

test("the description has an end, and holds nothing of the signature", () => {
  const text = describedToken(tokenOf({ ...claims, sub: "a".repeat(10_000) }));
  expect(text.length).toBeLessThan(1_000);
  expect(text).not.toContain("c2ln");
  expect(describedToken(tokenOf(claims))).not.toContain("ended");
});

test.each(["hello", "a.b.c", "e30.bnVsbA.x", ""])("%j is no token", (text) => {
  expect(describedToken(text)).toBe("What was given is no token of the form JWT.");
});
