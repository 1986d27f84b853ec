/** What stands where a secret was. */
export const CENSORED = "[redacted]";
/** Secrets that their form shows, in any text. Clients choose parts of these texts: every repetition is bounded, so that no pattern takes quadratic time. */
const SECRET_TEXTS: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)/g, CENSORED],
  [/\b([a-z][a-z0-9+.-]{0,30}:\/\/[^\s:@/]*):[^\s@/]+@/gi, `$1:${CENSORED}@`],
  // PostgreSQL's message about a violated constraint: names of columns, then their values.
  [/\bKey \(([^)]{0,200})\)=\([^\n]*\)/g, `Key ($1)=(${CENSORED})`],
  // PostgreSQL's message about a refused row: all its values, which may hold lines, to the end of the text.
  [/\bFailing row contains \([\s\S]*/, `Failing row contains (${CENSORED})`],
  [/\b((?:Bearer|zt-session:|svc-session:)\s+)\S+/gi, `$1${CENSORED}`],
];
/** Names of fields whose values are never shown, wherever they stand in the fields of a log line. */
const SECRET_NAME =
  /^(.*password|.*passwd|.*token|.*secret|.*secretkey|.*privatekey|(.*key)?pem|.*jwt|authorization|(set-)?cookie|zt-session|svc-session|database-?url|stringData)$/i;

/** Whether a value under this name is never shown. */
export function isSecretName(name: string): boolean {
  return SECRET_NAME.test(name);
}

/** Text that may hold a JWT; matched whole, so that no part of it is looked at twice. */
const DOTTED = /[\w.-]{12,}/g;

/** Takes secrets out of a text: private keys, JWTs, passwords in URLs, bearer tokens. */
export function withoutSecrets(text: string): string {
  const withoutTokens = text.replace(DOTTED, (found) => (found.includes("eyJ") ? withoutJwts(found) : found));
  return SECRET_TEXTS.reduce((kept, [form, replacement]) => kept.replace(form, replacement), withoutTokens);
}

/** A JWT is three parts with dots between; its first begins with `{"` in base64url. */
function withoutJwts(text: string): string {
  const parts = text.split(".");
  const kept: string[] = [];
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] ?? "";
    const start = part.indexOf("eyJ");
    const isJwt = start >= 0 && part.length - start >= 11 && (parts[i + 1] ?? "") !== "" && i + 2 < parts.length;
    kept.push(isJwt ? part.slice(0, start) + CENSORED : part);
    if (isJwt) i += 2;
  }
  return kept.join(".");
}
