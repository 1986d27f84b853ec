/** What an Identity logs in with. */
import type { IdentityResource } from "@sallyport/resources";
import { identityDefinition } from "@sallyport/resources/definitions";
import { admit } from "@sallyport/resources/testing/admit";
import { sample } from "@sallyport/resources/testing/samples";
import { describe, expect, test } from "vitest";
import { planPassword } from "../reconcile/credentials.ts";
import { renewalTime, wantedCredential } from "./credential.ts";

function identity(spec: Readonly<Record<string, unknown>> = {}): IdentityResource {
  const { object, problems } = admit(identityDefinition, sample("Identity", spec));
  expect(problems).toEqual([]);
  return object as unknown as IdentityResource;
}

describe("what it logs in with", () => {
  // biome-ignore format: a table
  test.each([
    ["nothing said", {}, { kind: "token", invitation: { method: "ott" }, secretName: "sample-enrollment", tokenLifeMs: 86_400_000 }],
    ["a name and a life", { enrollment: { secretName: "s", tokenLifetime: "1h30m" } }, { kind: "token", invitation: { method: "ott" }, secretName: "s", tokenLifeMs: 5_400_000 }],
    ["an outside issuer", { externalId: "x" }, { kind: "none" }],
    ["none", { enrollment: { method: "none" } }, { kind: "none" }],
    ["only a look", { managementPolicy: "Observe" }, { kind: "none" }],
    ["a third authority", { enrollment: { method: "ottca", caId: "ca1" } }, { kind: "token", invitation: { method: "ottca", caId: "ca1" }, secretName: "sample-enrollment", tokenLifeMs: 86_400_000 }],
    ["a password to choose", { enrollment: { method: "updb", username: "user" } }, { kind: "token", invitation: { method: "updb", username: "user" }, secretName: "sample-enrollment", tokenLifeMs: 86_400_000 }],
    ["a password that is given", { enrollment: { method: "updb", username: "user", passwordSecretRef: { name: "s", key: "k" } } }, { kind: "none" }],
    ["an identity", { enrollment: { output: "IdentitySecret", renewBefore: "48h" } }, { kind: "identity", secretName: "sample-identity", tokenLifeMs: 86_400_000, renewBeforeMs: 172_800_000 }],
  ])("by a spec with %s", (_name, spec, wanted) => {
    expect(wantedCredential(identity(spec))).toEqual(wanted);
  });

  // biome-ignore format: a table
  test.each([
    ["a third of a short life", 30, undefined, 20],
    ["30 days of a long life", 365, undefined, 335],
    ["as asked", 90, 5, 85],
    ["half of its life at most", 10, 9, 5],
  ])("is renewed %s before its end", (_name, lifeDays, beforeDays, afterDays) => {
    const day = 86_400_000;
    const life = { notBefore: new Date(0), notAfter: new Date(lifeDays * day) };
    expect(renewalTime(life, beforeDays === undefined ? undefined : beforeDays * day)).toEqual(new Date(afterDays * day));
  });
});

test("a password is set again when its Secret or the name has changed", () => {
  const wanted = { username: "u", version: "v2" };
  const tags = { "sallyport-password-version": "v2" };
  expect(planPassword(wanted, undefined)).toBe("create");
  expect(planPassword(wanted, { id: "a", username: "u", tags })).toBe("none");
  expect(planPassword(wanted, { id: "a", username: "u", tags: { "sallyport-password-version": "v1" } })).toBe("update");
  expect(planPassword(wanted, { id: "a", username: "other", tags })).toBe("update");
  expect(planPassword(wanted, { id: "a", username: "u", tags: null })).toBe("update");
});
