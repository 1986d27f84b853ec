import { ApiError, listAll, type ManagementClient } from "@sallyport/api/client";
import { type FoundIdentity, isOfOperator, type Tags } from "@sallyport/resources";
import type { EnrollmentToken } from "@sallyport/sdk";
import type { LeaderCheck } from "../../../kube/election/elector.ts";
import type { EventNote } from "../../../kube/events/recorder.ts";
import type { SecretObject } from "../../../kube/kinds.ts";
import type { CredentialState, CredentialStep, WantedCredential } from "../plan/credential.ts";
import { planIdentitySecret, planToken } from "../plan/credential-steps.ts";
import {
  CredentialError,
  certified,
  confirmCertificate,
  extendCertificate,
  isLetIn,
  prepareEnrollment,
  redeemEnrollment,
} from "../secret/certificate.ts";
import type { IdentitySecret } from "../secret/identity-secret.ts";

type SecretCredential = Exclude<WantedCredential, { readonly kind: "none" }>;

interface CredentialsOptions {
  readonly client: ManagementClient;
  readonly secret: IdentitySecret;
  readonly wanted: SecretCredential;
  /** The status names a credential of the wanted method of this identity. */
  readonly wasEnrolled: boolean;
  /** Value of the annotation re-enroll, when the status does not say that it was acted on. */
  readonly reEnroll: string | undefined;
  readonly settleMs: number;
  readonly signal: AbortSignal;
  readonly mayAct: LeaderCheck;
  now(): Date;
  recordEvent(event: EventNote): void;
}

/** How far it came. */
export interface CredentialsResult {
  readonly identity: FoundIdentity;
  /** Undefined after an error. */
  readonly state: CredentialState | undefined;
  readonly error: CredentialError | undefined;
  /** The request to enroll again was acted on. */
  readonly hasReEnrolled: boolean;
  readonly hasRenewed: boolean;
}

/** More steps than the longest way has: what goes on longer goes round. */
const MAX_STEPS = 16;

/** Takes an identity's credentials step by step to where the plan says rest. Each step is written down before the next one begins. */
export class Credentials {
  readonly #o: CredentialsOptions;
  #identity: FoundIdentity;
  #reEnroll: string | undefined;
  #fitsWaitingKey: boolean | undefined;
  /** A token of this reconcile need not be checked twice. */
  #checked: { readonly jwt: string; readonly token: EnrollmentToken } | undefined;
  #hasReEnrolled = false;
  #hasRenewed = false;

  constructor(identity: FoundIdentity, o: CredentialsOptions) {
    this.#identity = identity;
    this.#reEnroll = o.reEnroll;
    this.#o = o;
  }

  /** @throws what the Management API and the API server refuse; what enrolling and renewing refuse is in the result */
  async settle(): Promise<CredentialsResult> {
    for (let count = 0; count < MAX_STEPS; count++) {
      const step = this.#plan();
      if (step.do === "rest") return this.#result(step.state, undefined);
      try {
        await this.#take(step);
      } catch (error) {
        if (error instanceof CredentialError) return this.#result(undefined, error);
        throw error;
      }
    }
    throw new Error(`the credentials of identity ${this.#identity.id} come to no rest after ${MAX_STEPS} steps`);
  }

  #result(state: CredentialState | undefined, error: CredentialError | undefined): CredentialsResult {
    const { reEnroll } = this.#o;
    const { held } = this.#o.secret;
    const isWritten = reEnroll !== undefined && held.state === "ours" && held.reEnroll === reEnroll;
    return {
      identity: this.#identity,
      state,
      error,
      hasReEnrolled: this.#hasReEnrolled || isWritten,
      hasRenewed: this.#hasRenewed,
    };
  }

  #plan(): CredentialStep {
    const { wanted, secret, settleMs } = this.#o;
    const state = { identity: this.#identity, secret: secret.held, reEnroll: this.#reEnroll, now: this.#o.now() };
    return wanted.kind === "token"
      ? planToken(wanted, { ...state, wasEnrolled: this.#o.wasEnrolled })
      : planIdentitySecret(wanted, { ...state, fitsWaitingKey: this.#fitsWaitingKey, settleMs });
  }

  async #take(step: Exclude<CredentialStep, { readonly do: "rest" }>): Promise<void> {
    const { client, secret, signal } = this.#o;
    const { id } = this.#identity;
    switch (step.do) {
      case "invite": {
        const body = { ...step.invitation, identityId: id, expiresAt: step.expiresAt.toISOString() };
        await client.createEnrollment({ body }, { signal });
        return await this.#refresh();
      }
      case "replace": {
        const enrollmentId = step.enrollmentId ?? (await this.#enrollmentId());
        await client.deleteEnrollment({ params: { id: enrollmentId } }, { signal }).catch(unlessGone);
        const body = { ...step.invitation, identityId: id, expiresAt: step.expiresAt.toISOString() };
        await client.createEnrollment({ body }, { signal });
        const why = this.#reEnroll === undefined ? "the old one ended unused" : "as the annotation asks";
        this.#record("Normal", "TokenReplaced", "Invite", `the identity got a new enrollment token: ${why}`);
        this.#tokenWasReplaced();
        return await this.#refresh();
      }
      case "re-enroll": {
        const body = { expiresAt: step.expiresAt.toISOString() };
        await client.reEnrollAuthenticator({ params: { id: step.authenticatorId }, body }, { signal });
        this.#record(
          "Normal",
          "ReEnrolling",
          "ReEnroll",
          "the identity's credential was ended, as the annotation re-enroll asks",
        );
        this.#tokenWasReplaced();
        return await this.#refresh();
      }
      case "publish":
        await secret.write({ token: step.jwt });
        return this.#record(
          "Normal",
          "TokenPublished",
          "Invite",
          `the Secret ${secret.name} holds the enrollment token`,
        );
      case "retract":
        await secret.delete();
        return this.#record(
          "Normal",
          "Enrolled",
          "Enroll",
          "the identity has enrolled with its token, whose Secret was deleted",
        );
      case "prepare": {
        const { enrolling, token } = await prepareEnrollment(step.jwt, signal);
        this.#checked = { jwt: step.jwt, token };
        const { reEnroll = secret.content.reEnroll } = this.#o;
        await secret.write({ ...secret.content, token: undefined, enrolling, reEnroll });
        this.#reEnroll = undefined;
        return;
      }
      case "redeem":
        return await this.#redeem(step.jwt);
      case "recover":
        return await this.#recover();
      case "extend":
        return await this.#extend();
      case "confirm":
        return await this.#confirm();
      case "promote": {
        const { next, reEnroll } = secret.content;
        await secret.write({ identity: next?.file, reEnroll });
        return this.#wasRenewed();
      }
      case "restore": {
        const { former, reEnroll } = secret.content;
        return await secret.write({ identity: former?.file, reEnroll });
      }
      case "tidy": {
        const { identity, former, reEnroll } = secret.content;
        await secret.write({ identity, reEnroll });
        if (former !== undefined) this.#wasRenewed();
        return;
      }
    }
  }

  #wasRenewed(): void {
    this.#hasRenewed = true;
    const note = `the Secret ${this.#o.secret.name} holds a renewed identity`;
    this.#record("Normal", "CertificateRenewed", "Renew", note);
  }

  /** For a Secret with a token, a new token is all that was asked for. */
  #tokenWasReplaced(): void {
    if (this.#o.wanted.kind !== "token" || this.#reEnroll === undefined) return;
    this.#hasReEnrolled = true;
    this.#reEnroll = undefined;
  }

  async #redeem(jwt: string): Promise<void> {
    const { secret } = this.#o;
    const { enrolling, reEnroll } = secret.content;
    if (enrolling === undefined) throw new TypeError("a plan to enroll without a key");
    try {
      const token = this.#checked?.jwt === jwt ? this.#checked.token : jwt;
      const identity = await redeemEnrollment(token, enrolling, this.#o);
      await secret.write({ identity, reEnroll });
    } catch (error) {
      // Whether the token was used up tells the next look.
      await this.#refresh();
      if (!(error instanceof CredentialError) || this.#identity.authenticators.cert === undefined) throw error;
      return;
    }
    this.#record("Normal", "Enrolled", "Enroll", `the identity has enrolled; the Secret ${secret.name} holds it`);
    await this.#refresh();
  }

  async #recover(): Promise<void> {
    const { client, secret, signal } = this.#o;
    const { cert } = this.#identity.authenticators;
    const { enrolling, reEnroll } = secret.content;
    if (cert === undefined || enrolling === undefined) throw new TypeError("a plan to recover what is not there");
    const { data } = await client.detailAuthenticator({ params: { id: cert.id } }, { signal });
    const identity = certified(enrolling, data.certPem ?? "");
    this.#fitsWaitingKey = identity !== undefined;
    if (identity === undefined) return;
    await secret.write({ identity, reEnroll });
    this.#record("Normal", "Enrolled", "Enroll", `the identity has enrolled; the Secret ${secret.name} holds it`);
  }

  async #extend(): Promise<void> {
    const { secret } = this.#o;
    const { identity, reEnroll } = secret.content;
    const { cert } = this.#identity.authenticators;
    if (identity === undefined || cert === undefined) throw new TypeError("a plan to renew what is not there");
    if (this.#hasRenewed) {
      const message =
        "a certificate that was issued just now is to be renewed at once: the clocks of the network and of the operator differ";
      throw new CredentialError("ClocksDiffer", message, { isPassing: true });
    }
    const file = await extendCertificate(identity, cert.id, this.#o);
    const isBothIn = await isLetIn(file, this.#o);
    const since = this.#o.now();
    // Where both let it in, clients that know one file only are never refused.
    const content = isBothIn
      ? { identity: file, former: { file: identity, since } }
      : { identity, next: { file, since } };
    await secret.write({ ...content, reEnroll });
    const note = `the Secret ${secret.name} holds a new certificate beside the one in force`;
    this.#record("Normal", "CertificateIssued", "Renew", note);
  }

  async #confirm(): Promise<void> {
    const { secret } = this.#o;
    const { identity, next, former, reEnroll } = secret.content;
    const { cert } = this.#identity.authenticators;
    if (identity === undefined || (next ?? former) === undefined || cert === undefined) {
      throw new TypeError("a plan to put in force what is not there");
    }
    try {
      await confirmCertificate(identity, cert.id, next?.file ?? identity, this.#o);
    } catch (error) {
      // It may be in force although the answer was lost; and one that the network does not want is asked for again the next time.
      await this.#refresh();
      if (!(error instanceof CredentialError) || this.#identity.authenticators.cert?.fingerprint !== cert.fingerprint) {
        if (error instanceof CredentialError) return;
        throw error;
      }
      if (!error.isPassing) await secret.write({ identity: former?.file ?? identity, reEnroll });
      throw error;
    }
    await this.#refresh();
  }

  async #refresh(): Promise<void> {
    const { client, signal } = this.#o;
    this.#identity = (await client.detailIdentity({ params: { id: this.#identity.id } }, { signal })).data;
  }

  async #enrollmentId(): Promise<string> {
    const { client, wanted, signal } = this.#o;
    const method = wanted.kind === "token" ? wanted.invitation.method : "ott";
    const { data } = await client.getIdentityEnrollments({ params: { id: this.#identity.id } }, { signal });
    const id = data.find((enrollment) => enrollment.method === method)?.id;
    if (id !== undefined) return id;
    const message = "the network does not name the identity's enrollment";
    throw new CredentialError("EnrollmentRefused", message, { isPassing: true });
  }

  #record(type: EventNote["type"], reason: string, action: string, note: string): void {
    this.#o.recordEvent({ type, reason, action, note });
  }
}

/** Nothing when it is gone already: another client was faster. */
export function unlessGone(error: unknown): undefined {
  if (error instanceof ApiError && error.status === 404) return undefined;
  throw error;
}

interface PasswordOptions {
  readonly client: ManagementClient;
  readonly identityId: string;
  readonly username: string;
  readonly secretRef: { readonly name: string; readonly key: string };
  /** The user's Secret, if there is one. */
  readonly secret: SecretObject | undefined;
  readonly signal: AbortSignal;
}

/** `isPassing`: it is enough that the Secret comes about. */
export interface PasswordProblem {
  readonly reason: "SecretNotFound" | "SecretNotAllowed";
  readonly message: string;
  readonly isPassing: boolean;
}

export interface PasswordResult {
  /** Why there is no password to set. */
  readonly problem?: PasswordProblem;
  readonly isChanged: boolean;
}

/** Keeps an identity's login by password as the user's Secret has it. */
export async function settlePassword(o: PasswordOptions): Promise<PasswordResult> {
  const { client, identityId, username, secretRef, secret, signal } = o;
  const encoded = secret?.data?.[secretRef.key];
  const { name, key } = secretRef;
  if (secret === undefined || encoded === undefined) {
    const what = secret === undefined ? "does not exist" : `has no key ${key}`;
    const message = `the Secret ${name} with the password ${what}`;
    return { problem: { reason: "SecretNotFound", message, isPassing: true }, isChanged: false };
  }
  if (isOfOperator(secret.metadata)) {
    const message = `the Secret ${name} is one that the operator itself has made: what is in it is no password; name another one`;
    return { problem: { reason: "SecretNotAllowed", message, isPassing: false }, isChanged: false };
  }
  const params = { id: identityId };
  const all = await listAll((query) => client.getIdentityAuthenticators({ params, query }, { signal }));
  const found = all.find(({ method }) => method === "updb");
  const version = `${secret.metadata.uid}.${secret.metadata.resourceVersion}`;
  const action = planPassword({ username, version }, found);
  if (action === "none") return { isChanged: false };
  const password = Buffer.from(encoded, "base64").toString("utf8");
  const login = { username, password, tags: { [PASSWORD_TAG]: version } };
  if (found === undefined)
    await client.createAuthenticator({ body: { ...login, method: "updb", identityId } }, { signal });
  else await client.updateAuthenticator({ params: { id: found.id }, body: login }, { signal });
  return { isChanged: true };
}

/** Tag of an authenticator: which state of the user's Secret its password is from. */
const PASSWORD_TAG = "sallyport-password-version";

/** The password that the spec refers to. */
interface WantedPassword {
  readonly username: string;
  /** Changes with the Secret; says nothing about what is in it. */
  readonly version: string;
}

interface FoundPassword {
  readonly id: string;
  readonly username?: string | undefined;
  readonly tags?: Tags | null | undefined;
}

/** What to do about a login by password: what is stored can't be read back, so the tag tells whether it is the one in the Secret. */
export function planPassword(wanted: WantedPassword, found: FoundPassword | undefined): "create" | "update" | "none" {
  if (found === undefined) return "create";
  return found.username === wanted.username && found.tags?.[PASSWORD_TAG] === wanted.version ? "none" : "update";
}
