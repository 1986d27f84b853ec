/**
 * One-time codes by time (RFC 6238) as OpenZiti's clients and authenticator apps use them.
 * Source: docs/protocol/authentication.md "One-time codes".
 */
import { randomBytes } from "node:crypto";
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
