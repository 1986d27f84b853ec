export type Environment = Readonly<Record<string, string | undefined>>;

const NAME = /^[A-Za-z0-9_]+/;
const SPECIAL = /^[*#$@!?-]/;

/**
 * Replaces `$NAME` and `${NAME}` by the environment's values; unset variables become empty. A dollar sign before
 * anything that is no name stays, `${}` and an unclosed `${` vanish, a digit or one of `* # $ @ ! ? -` is a name of one
 * character. There is no escape. Done on every text value of the file, never on keys, numbers or booleans; the result
 * stays text.
 */
export function expandEnvironment(text: string, env: Environment): string {
  let out = "";
  let rest = text;
  for (let at = rest.indexOf("$"); at >= 0; at = rest.indexOf("$")) {
    out += rest.slice(0, at);
    rest = rest.slice(at + 1);
    if (rest.startsWith("{")) {
      const end = rest.indexOf("}");
      if (end < 0) {
        rest = rest.slice(1);
        continue;
      }
      out += env[rest.slice(1, end)] ?? "";
      rest = rest.slice(end + 1);
      continue;
    }
    const name = SPECIAL.exec(rest)?.[0] ?? (/^\d/.test(rest) ? rest.slice(0, 1) : NAME.exec(rest)?.[0]);
    if (name === undefined) {
      out += "$";
      continue;
    }
    out += env[name] ?? "";
    rest = rest.slice(name.length);
  }
  return out + rest;
}
