/**
 * One-time codes by time (RFC 6238) as OpenZiti's clients and authenticator apps use them, and the pauses of a client that guesses them.
 * Source: docs/protocol/authentication.md "One-time codes".
 */
import { randomBytes } from "node:crypto";
import { apiError } from "@sallyport/api";
import { BoundedMap, backoffDelay } from "@sallyport/async";
import { createGuardrails, generateSync, ScureBase32Plugin, verifySync } from "otplib";

const SECRET_BYTES = 20;
/** Secrets of earlier enrollments have 80 bits, and stay valid. */
const MIN_SECRET_BYTES = 10;
const STEP_SECONDS = 30;
/** Codes of so many steps before and after the present one are accepted: phones have wrong clocks. */
const WINDOW_STEPS = 2;
const DIGITS = 6;
const GUARDRAILS = createGuardrails({ MIN_SECRET_BYTES });

/** A new shared secret: 160 random bits as RFC 4226 recommends, in base32 without padding: 32 characters. */
export function newTotpSecret(): string {
  return new ScureBase32Plugin().encode(randomBytes(SECRET_BYTES));
}

/** The code at a moment. */
export function totpCode(secret: string, at: Date): string {
  return generateSync(parameters(secret, at));
}

/** The step whose code it is, of those that are accepted at this moment; undefined for any other text. */
export function matchTotp(secret: string, code: string, at: Date): number | undefined {
  if (!/^\d{6}$/.test(code)) return undefined;
  const result = verifySync({ ...parameters(secret, at), token: code, epochTolerance: WINDOW_STEPS * STEP_SECONDS });
  if (!result.valid) return undefined;
  return Math.floor(at.getTime() / 1000 / STEP_SECONDS) + result.delta;
}

/** A QR code holds about 2,000 characters, and apps show a few dozen of them. */
const MAX_NAME_CHARACTERS = 64;

/** The content of the QR code for an authenticator app. A long name is cut. */
export function provisioningUrl(secret: string, issuer: string, name: string): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent([...name].slice(0, MAX_NAME_CHARACTERS).join(""))}`;
  return `otpauth://totp/${label}?issuer=${encodeURIComponent(issuer)}&secret=${secret}`;
}

function parameters(secret: string, at: Date) {
  return {
    secret,
    epoch: Math.floor(at.getTime() / 1000),
    digits: DIGITS,
    period: STEP_SECONDS,
    algorithm: "sha1",
    guardrails: GUARDRAILS,
  } as const;
}

/** Wrong codes in a row without a pause. */
const MAX_FREE_ATTEMPTS = 5;
const PAUSES = { firstMs: 30_000, maxMs: 3_600_000 };
const MAX_COUNTED = 100_000;

interface Failures {
  count: number;
  /** The controller checks no code before this moment. */
  until: number;
}

/**
 * Slows down a client that guesses one-time codes. Five in a row may be wrong; after each further one the identity pauses, for twice as long each time (30 s
 * to 1 h). An attempt counts before its code is checked, so simultaneous attempts gain nothing. In memory and bounded: the oldest entries go first.
 */
export class CodeAttempts {
  readonly #failures = new BoundedMap<string, Failures>(MAX_COUNTED);

  /** @throws ApiError 429 with `retry-after` while the identity pauses */
  require(identityId: string, now: Date): void {
    const wait = (this.#failures.get(identityId)?.until ?? 0) - now.getTime();
    if (wait <= 0) return;
    const headers = { "retry-after": String(Math.ceil(wait / 1000)) };
    throw apiError("SERVER_TOO_MANY_REQUESTS", undefined, { headers, detail: `identity ${identityId} guesses codes` });
  }

  /** Counts an attempt. @throws ApiError 429 as {@link require} */
  begin(identityId: string, now: Date): void {
    this.require(identityId, now);
    const failures = this.#failures.get(identityId) ?? { count: 0, until: 0 };
    failures.count += 1;
    const pauses = failures.count - MAX_FREE_ATTEMPTS;
    if (pauses > 0) failures.until = now.getTime() + backoffDelay(pauses, PAUSES);
    this.#failures.set(identityId, failures);
  }

  /** A right code resets the count. */
  succeeded(identityId: string): void {
    this.#failures.delete(identityId);
  }
}
