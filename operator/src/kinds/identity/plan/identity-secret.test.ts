/** An identity in a Secret: what is next in every state that a crash, a person or the clock can leave behind. */
import { describe, expect, test } from "vitest";
import type { HeldCertificate, OwnSecret, WantedCredential } from "./credential.ts";
import { type IdentitySecretState, planIdentitySecret } from "./credential-steps.ts";

const NOW = new Date("2026-11-22T12:00:00Z");
const MINUTE = 60_000;
const DAY = 86_400_000;
const at = (ms: number): Date => new Date(NOW.getTime() + ms);

const WANTED: Extract<WantedCredential, { kind: "identity" }> = {
  kind: "identity",
  secretName: "bot-identity",
  tokenLifeMs: DAY,
  renewBeforeMs: undefined,
};

const certificate = (fingerprint: string, changes: Partial<HeldCertificate> = {}): HeldCertificate => ({
  fingerprint,
  identityId: "i1",
  notBefore: at(-DAY),
  notAfter: at(89 * DAY),
  ...changes,
});
const ours = (content: Omit<OwnSecret, "state"> = {}): OwnSecret => ({ state: "ours", ...content });
const OLD = certificate("old");
const DUE = certificate("old", { notBefore: at(-80 * DAY), notAfter: at(10 * DAY) });
const next = (since: Date, changes: Partial<HeldCertificate> = {}) => ({ ...certificate("new", changes), since });
const NEW = certificate("new");
const former = (since: Date, changes: Partial<HeldCertificate> = {}) => ({ ...DUE, ...changes, since });
const invited = (expiresAt: Date, jwt: string | undefined = "t1") => ({
  ott: { id: "e1", jwt, expiresAt: expiresAt.toISOString() },
});

interface Given {
  readonly secret?: IdentitySecretState["secret"];
  /** Fingerprint of the certificate that the network knows. */
  readonly inForce?: string;
  readonly enrollment?: IdentitySecretState["identity"]["enrollment"];
  readonly disabled?: boolean;
  readonly reEnroll?: string;
  readonly fitsWaitingKey?: boolean;
}

function plan({
  secret = { state: "absent" },
  inForce,
  enrollment = {},
  disabled = false,
  reEnroll,
  fitsWaitingKey,
}: Given) {
  const authenticators = inForce === undefined ? {} : { cert: { id: "a1", fingerprint: inForce } };
  const identity = { id: "i1", authenticators, enrollment, disabled };
  return planIdentitySecret(WANTED, { identity, secret, reEnroll, fitsWaitingKey, settleMs: 2 * MINUTE, now: NOW });
}

const rest = (state: object) => ({ do: "rest", state: expect.objectContaining(state) });
const stuck = (reason: string) =>
  rest({ enrolled: expect.objectContaining({ reason }), problem: expect.objectContaining({ reason }) });
const valid = (reason: string, wakeAt?: Date) =>
  rest({ certificate: expect.objectContaining({ status: "True", reason }), ...(wakeAt && { wakeAt }) });

// biome-ignore format: a table
const TABLE: readonly [string, Given, object][] = [
  // Enrolling.
  ["is not invited yet", {}, { do: "invite", invitation: { method: "ott" }, expiresAt: at(DAY) }],
  ["is invited", { enrollment: invited(at(DAY)) }, { do: "prepare", jwt: "t1" }],
  ["has a token that ended", { enrollment: invited(at(0)) }, { do: "replace", enrollmentId: "e1", invitation: { method: "ott" }, expiresAt: at(DAY) }],
  ["has an invitation without a token", { enrollment: { ott: { id: "e1", expiresAt: at(DAY).toISOString() } } }, { do: "replace", enrollmentId: "e1", invitation: { method: "ott" }, expiresAt: at(DAY) }],
  ["has a key that waits", { secret: ours({ enrolling: "i1" }), enrollment: invited(at(DAY)) }, { do: "redeem", jwt: "t1" }],
  ["has a key of an identity that is gone", { secret: ours({ enrolling: "i0" }), enrollment: invited(at(DAY)) }, { do: "prepare", jwt: "t1" }],
  ["has a key that waits and a token that ended", { secret: ours({ enrolling: "i1" }), enrollment: invited(at(-1)) }, { do: "replace", enrollmentId: "e1", invitation: { method: "ott" }, expiresAt: at(DAY) }],
  ["was to enroll again, and its invitation is gone", { secret: ours({ identity: OLD, enrolling: "i1" }) }, { do: "invite", invitation: { method: "ott" }, expiresAt: at(DAY) }],
  ["has a key that waits and no invitation", { secret: ours({ enrolling: "i1" }) }, { do: "invite", invitation: { method: "ott" }, expiresAt: at(DAY) }],
  ["was enrolled, and the answer was lost", { secret: ours({ enrolling: "i1" }), inForce: "new" }, { do: "recover" }],
  ["was enrolled by a thief of the token", { secret: ours({ enrolling: "i1" }), inForce: "new", fitsWaitingKey: false }, stuck("EnrolledElsewhere")],
  ["was made again under another id", { secret: ours({ identity: certificate("old", { identityId: "i0" }) }), enrollment: invited(at(DAY)) }, { do: "prepare", jwt: "t1" }],
  ["was made again and is not invited", { secret: ours({ identity: certificate("old", { identityId: "i0" }) }) }, { do: "invite", invitation: { method: "ott" }, expiresAt: at(DAY) }],

  // Enrolled.
  ["is enrolled", { secret: ours({ identity: OLD }), inForce: "old" }, valid("Valid", at(59 * DAY))],
  ["is enrolled, with a key that is not needed", { secret: ours({ identity: OLD, enrolling: "i1" }), inForce: "old" }, { do: "tidy" }],
  ["was enrolled before it was adopted", { inForce: "old" }, stuck("CredentialsMissing")],
  ["has lost its Secret's content", { secret: ours(), inForce: "old" }, stuck("CredentialsMissing")],
  ["was renewed by another client", { secret: ours({ identity: OLD }), inForce: "theirs" }, stuck("EnrolledElsewhere")],
  ["had its certificate taken away", { secret: ours({ identity: OLD }) }, stuck("CredentialsRevoked")],
  ["had its certificate taken away and was invited again", { secret: ours({ identity: OLD }), enrollment: invited(at(DAY)) }, { do: "prepare", jwt: "t1" }],

  // Renewal.
  ["is due", { secret: ours({ identity: DUE }), inForce: "old" }, { do: "extend" }],
  ["ended", { secret: ours({ identity: certificate("old", { notAfter: at(-1) }) }), inForce: "old" }, { do: "extend" }],
  ["is due and disabled", { secret: ours({ identity: DUE }), inForce: "old", disabled: true }, valid("RenewalWaits")],
  ["ended and is disabled", { secret: ours({ identity: certificate("old", { notAfter: at(-1) }) }), inForce: "old", disabled: true }, rest({ certificate: expect.objectContaining({ status: "False", reason: "CertificateExpired" }) })],
  ["has a new certificate, which clients may not have seen", { secret: ours({ identity: DUE, next: next(at(-MINUTE)) }), inForce: "old" }, valid("Renewing", at(MINUTE))],
  ["has a new certificate for long enough", { secret: ours({ identity: DUE, next: next(at(-2 * MINUTE)) }), inForce: "old" }, { do: "confirm" }],
  ["has little time left to wait", { secret: ours({ identity: certificate("old", { notBefore: at(-10 * MINUTE), notAfter: at(3 * MINUTE) }), next: next(at(-MINUTE)) }), inForce: "old" }, { do: "confirm" }],
  ["has a new certificate that ended", { secret: ours({ identity: DUE, next: next(at(-DAY), { notAfter: at(-1) }) }), inForce: "old" }, { do: "tidy" }],
  ["has a new certificate of another identity", { secret: ours({ identity: DUE, next: next(at(-DAY), { identityId: "i0" }) }), inForce: "old" }, { do: "tidy" }],
  ["has a new certificate in force", { secret: ours({ identity: DUE, next: next(at(0)) }), inForce: "new" }, { do: "promote" }],

  // Renewal in a network that lets both in.
  ["has a new certificate in the old one's place, which clients may not have seen", { secret: ours({ identity: NEW, former: former(at(-MINUTE)) }), inForce: "old" }, valid("Renewing", at(MINUTE))],
  ["has it there for long enough", { secret: ours({ identity: NEW, former: former(at(-2 * MINUTE)) }), inForce: "old" }, { do: "confirm" }],
  ["has it there, and the old one ended", { secret: ours({ identity: NEW, former: former(at(-MINUTE), { notAfter: at(-1) }) }), inForce: "old" }, { do: "confirm" }],
  ["has it there and is disabled", { secret: ours({ identity: NEW, former: former(at(-DAY)) }), inForce: "old", disabled: true }, valid("RenewalWaits")],
  ["has it there, and it ended", { secret: ours({ identity: certificate("new", { notAfter: at(-1) }), former: former(at(-DAY)) }), inForce: "old" }, { do: "restore" }],
  ["has it there, of another identity", { secret: ours({ identity: certificate("new", { identityId: "i0" }), former: former(at(-DAY)) }), inForce: "old" }, { do: "restore" }],
  ["has it in force", { secret: ours({ identity: NEW, former: former(at(-DAY)) }), inForce: "new" }, { do: "tidy" }],
  ["has neither in force", { secret: ours({ identity: NEW, former: former(at(-DAY)) }), inForce: "theirs" }, stuck("EnrolledElsewhere")],

  // Asked to enroll again.
  ["is asked to enroll again", { secret: ours({ identity: OLD }), inForce: "old", reEnroll: "1" }, { do: "re-enroll", authenticatorId: "a1", expiresAt: at(DAY) }],
  ["is asked again, with the Secret lost", { inForce: "old", reEnroll: "1" }, { do: "re-enroll", authenticatorId: "a1", expiresAt: at(DAY) }],
  ["has lost its credential for that", { secret: ours({ identity: OLD }), enrollment: invited(at(DAY)), reEnroll: "1" }, { do: "prepare", jwt: "t1" }],
  ["has its key for that", { secret: ours({ identity: OLD, enrolling: "i1", reEnroll: "1" }), enrollment: invited(at(DAY)), reEnroll: "1" }, { do: "redeem", jwt: "t1" }],
  ["has done that, which the status does not say", { secret: ours({ identity: OLD, reEnroll: "1" }), inForce: "old", reEnroll: "1" }, valid("Valid")],
  ["had its certificate taken away and is asked to enroll again", { secret: ours({ identity: OLD }), reEnroll: "1" }, { do: "invite", invitation: { method: "ott" }, expiresAt: at(DAY) }],

  // A Secret of another owner.
  ["finds its Secret's name taken", { secret: { state: "foreign" }, enrollment: invited(at(DAY)) }, stuck("SecretConflict")],
  ["finds its Secret's name taken, and is asked to enroll again", { secret: { state: "foreign" }, inForce: "old", reEnroll: "1" }, stuck("SecretConflict")],
];

describe("an identity that", () => {
  test.each(TABLE)("%s", (_name, given, step) => {
    expect(plan(given)).toEqual(step);
  });
});

test("what a person has to do stands in the message", () => {
  for (const given of [
    { inForce: "old" },
    { secret: ours({ identity: OLD }) },
    { secret: ours({ identity: OLD }), inForce: "x" },
  ]) {
    const step = plan(given);
    expect(step.do === "rest" && step.state.problem?.message).toContain("sallyport.dev/re-enroll");
  }
});
