/** What stands where a secret was. */
export const CENSORED = "[redacted]";
/** Secrets that can be told by their form, in any text. */
const SECRET_TEXTS: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]{0,30}PRIVATE KEY-----|$)/g, CENSORED],
  [/\beyJ[\w-]{8,}\.[\w-]+(\.[\w-]*)?/g, CENSORED],
  [/\b([a-z][a-z0-9+.-]{0,30}:\/\/[^\s:@/]{0,200}):[^\s@/]{1,200}@/gi, `$1:${CENSORED}@`],
  [/\b((?:Bearer|zt-session:|svc-session:)\s{1,5})\S+/gi, `$1${CENSORED}`],
];

/** Takes secrets out of a text: private keys, tokens, passwords in URLs. */
export const withoutSecrets = (text: string): string =>
  SECRET_TEXTS.reduce((kept, [form, replacement]) => kept.replace(form, replacement), text);
