import { ApiError } from "@sallyport/api";
import { describe, expect, test } from "vitest";
import { checkPassword, hashPassword, isOutdated, passwordProblem } from "./password.ts";

describe("passwords at rest", () => {
  test("are argon2id with today's parameters, salted", async () => {
    const [one, other] = await Promise.all([hashPassword("secret"), hashPassword("secret")]);
    expect(one).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$[\w+/]{22}\$[\w+/]{43}$/);
    expect(one).not.toBe(other);
    expect(await Promise.all([checkPassword(one, "secret"), checkPassword(one, "Secret")])).toEqual([true, false]);
    expect(await checkPassword(undefined, "a user that does not exist")).toBe(false);
  });

  test.each([
    ["$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA", false],
    ["$argon2id$v=19$m=3072,t=1,p=4$c2FsdA$aGFzaA", true],
    ["$argon2i$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA", true],
    ["$argon2id$v=16$m=19456,t=2,p=1$c2FsdA$aGFzaA", true],
  ])("%s is outdated: %s", (hash, outdated) => expect(isOutdated(hash)).toBe(outdated));

  test("are worked on 64 at a time; who comes beyond is asked to come again, and all is well afterwards", async () => {
    const hash = await hashPassword("secret");
    const outcomes = await Promise.allSettled(Array.from({ length: 70 }, () => checkPassword(hash, "secret")));
    const refused = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [outcome.reason as ApiError] : []));
    expect(refused).toHaveLength(6);
    for (const error of refused) {
      expect(error).toBeInstanceOf(ApiError);
      expect(error).toMatchObject({ status: 429, code: "SERVER_TOO_MANY_REQUESTS", headers: { "retry-after": "1" } });
    }
    expect(await checkPassword(hash, "secret")).toBe(true);
  });
});

test("lengths count characters as people see them, not their code units", () => {
  const rules = { minLength: 5, requireMixedCase: false, requireNumber: false, requireSpecial: false };
  expect(passwordProblem("🔑🔑🔑", rules)).toContain("at least 5");
  expect(passwordProblem("🔑🔑🔑🔑🔑", rules)).toBeUndefined();
  expect(passwordProblem("пароль", { ...rules, requireMixedCase: true })).toContain("upper and lower");
  expect(passwordProblem("Пароль", { ...rules, requireMixedCase: true })).toBeUndefined();
});
