/** A token in a Secret, until a device has enrolled with it. */
import { describe, expect, test } from "vitest";
import type { WantedCredential } from "./credential.ts";
import { planToken, type TokenState } from "./credential-steps.ts";

const NOW = new Date("2026-11-22T12:00:00Z");
const DAY = 86_400_000;
const at = (ms: number): Date => new Date(NOW.getTime() + ms);

const WANTED: Extract<WantedCredential, { kind: "token" }> = {
  kind: "token",
  invitation: { method: "ott" },
  secretName: "phone-enrollment",
  tokenLifeMs: DAY,
};
const enrollment = (jwt: string | undefined, expiresAt: Date) => ({
  ott: { id: "e1", jwt, expiresAt: expiresAt.toISOString() },
});
const cert = { cert: { id: "a1", fingerprint: "f" } };
const secret = (token?: string) => ({ state: "ours", token }) as const;

interface Given {
  readonly secret?: TokenState["secret"];
  readonly authenticators?: TokenState["identity"]["authenticators"];
  readonly enrollment?: TokenState["identity"]["enrollment"];
  readonly reEnroll?: string;
  readonly wasEnrolled?: boolean;
  readonly wanted?: typeof WANTED;
}

const plan = ({
  secret = { state: "absent" },
  authenticators = {},
  enrollment = {},
  reEnroll,
  wasEnrolled = false,
  wanted = WANTED,
}: Given) =>
  planToken(wanted, { identity: { id: "i1", authenticators, enrollment }, secret, wasEnrolled, reEnroll, now: NOW });

const stands = (status: string, reason: string, more: object = {}) => ({
  do: "rest",
  state: { enrolled: expect.objectContaining({ status, reason }), ...more },
});
const conflict = (status: string) =>
  stands(status, "SecretConflict", { problem: expect.objectContaining({ reason: "SecretConflict" }) });
const live = enrollment("t1", at(DAY));
const replace = { do: "replace", enrollmentId: "e1", invitation: { method: "ott" }, expiresAt: at(DAY) };
const updb = { ...WANTED, invitation: { method: "updb", username: "u" } } as const;

// biome-ignore format: a table
const TABLE: readonly [string, Given, object][] = [
  ["is not invited", {}, { do: "invite", invitation: { method: "ott" }, expiresAt: at(DAY) }],
  ["was enrolled, and has nothing any more", { wasEnrolled: true }, stands("False", "CredentialsRevoked", { problem: expect.objectContaining({ reason: "CredentialsRevoked" }) })],
  ["was enrolled, has nothing any more, and is asked to enroll again", { wasEnrolled: true, reEnroll: "1" }, { do: "invite", invitation: { method: "ott" }, expiresAt: at(DAY) }],
  ["was enrolled, and was invited again by a user", { wasEnrolled: true, enrollment: live }, { do: "publish", jwt: "t1" }],
  ["is invited", { enrollment: live }, { do: "publish", jwt: "t1" }],
  ["has its token in the Secret", { enrollment: live, secret: secret("t1") }, stands("False", "WaitingForDevice", { wakeAt: at(DAY) })],
  ["has an old token in the Secret", { enrollment: live, secret: secret("t0") }, { do: "publish", jwt: "t1" }],
  ["had its Secret emptied", { enrollment: live, secret: secret() }, { do: "publish", jwt: "t1" }],
  ["has a token that ended unused", { enrollment: enrollment("t1", at(0)), secret: secret("t1") }, replace],
  ["is shown no token", { enrollment: enrollment(undefined, at(DAY)) }, stands("False", "TokenMissing", { problem: expect.anything() })],
  ["enrolled with its token", { authenticators: cert, secret: secret("t1") }, { do: "retract" }],
  ["is enrolled", { authenticators: cert }, stands("True", "Enrolled")],
  ["is enrolled, with another Secret of that name", { authenticators: cert, secret: { state: "foreign" } }, stands("True", "Enrolled")],
  ["finds its Secret's name taken", { enrollment: live, secret: { state: "foreign" } }, conflict("False")],
  ["is asked to enroll again", { authenticators: cert, reEnroll: "1" }, { do: "re-enroll", authenticatorId: "a1", expiresAt: at(DAY) }],
  ["is asked to enroll again, and its Secret's name is taken", { authenticators: cert, secret: { state: "foreign" }, reEnroll: "1" }, conflict("True")],
  ["is asked for another token", { enrollment: live, secret: secret("t1"), reEnroll: "1" }, replace],
  ["has another method's invitation", { enrollment: live, wanted: updb as never }, { do: "invite", invitation: updb.invitation, expiresAt: at(DAY) }],
  ["logs in by certificate where a password is wanted", { authenticators: cert, wanted: updb as never }, { do: "invite", invitation: updb.invitation, expiresAt: at(DAY) }],
  ["logs in by password", { authenticators: { updb: { id: "a2", username: "u" } }, wanted: updb as never }, stands("True", "Enrolled")],
];

describe("an identity that", () => {
  test.each(TABLE)("%s", (_name, given, step) => {
    expect(plan(given)).toEqual(step);
  });
});
