/** Takes secrets out of configuration files, documents and logs. In doubt it takes too much: who reads a report can ask. Pure. */
import { CENSORED, isSecretName, withoutSecrets } from "@sallyport/program/secret-texts";

/** A shorter text occurs by chance. */
const MIN_SECRET = 6;
/** Parts of names whose values are secrets. */
const SECRET_PART =
  "pass[_.-]?(?:word|wd|phrase)|secret|token|credential|private[_.-]?key|api[_.-]?key|access[_.-]?key|cookie|jwt|authorization|zt-session|database[_.-]?url";
const SECRET = new RegExp(SECRET_PART, "i");
/** The value is a place, a time or a number. */
const HARMLESS =
  /(file|path|dir|folder|endpoint|uri|lifetime|duration|timeout|interval|length|size|limit|count|enabled|required|type|id|expiresat)s?$/i;
/** What a key looks like that stands in a file itself: base64 or hex digits, and no path. */
const KEY = /^[A-Za-z0-9+/=_-]{32,}$/;
/** `name: value`, `name=value` and `"name":"value"`, also in comments and several in a line. All repetitions are bounded. */
const NAME = `(["']?)([\\w.-]{0,60}(?:${SECRET_PART})[\\w.-]{0,60})\\1(\\s{0,8}[:=]\\s{0,8})`;
const QUOTED = `"(?:[^"\\\\\\n]|\\\\.){0,20000}"|'[^'\\n]{0,20000}'`;
const PAIR_OF_LOG = new RegExp(`${NAME}(${QUOTED}|[^\\s,;&}\\]"'#]{1,20000})`, "gi");
/** Without quotation marks a value may have blanks. */
const PAIR_OF_CONFIGURATION = new RegExp(`${NAME}(${QUOTED}|[^\\n"']{1,20000})`, "gi");

export class Redactor {
  /** Secrets that were met: they are taken out wherever else they stand. */
  readonly #met = new Set<string>();

  /** Adds a secret, such as the token of a session. */
  know(secret: string): void {
    if (secret.length >= MIN_SECRET && secret !== CENSORED) this.#met.add(secret);
  }

  /**
   * A configuration file or an identity file: YAML, JSON or lines `NAME=value`.
   * @throws YAMLParseError where the text is none of them: what is a secret in it cannot be known
   */
  async configuration(text: string): Promise<string> {
    for (const secret of await secretsIn(text)) this.know(secret);
    return this.#without(text, PAIR_OF_CONFIGURATION);
  }

  /** A log, or any other text. */
  text(text: string): string {
    return this.#without(text, PAIR_OF_LOG);
  }

  /** What becomes JSON. */
  value(value: unknown): unknown {
    if (typeof value === "string") return this.text(value);
    if (Array.isArray(value)) return value.map((each) => this.value(each));
    if (typeof value !== "object" || value === null) return value;
    const entries = Object.entries(value).map(([name, each]) => {
      return [name, typeof each === "string" && isSecret(name) ? CENSORED : this.value(each)] as const;
    });
    return Object.fromEntries(entries);
  }

  #without(text: string, pair: RegExp): string {
    const replaced = withoutSecrets(this.#withoutMet(text)).replaceAll(
      pair,
      (_whole, quote: string, name: string, between: string, value: string) => {
        const start = `${quote}${name}${quote}${between}`;
        // Another pair may stand in the value.
        if (!isSecret(name) || isNothing(value)) return start + this.#without(value, pair);
        const inner = value.replaceAll(/^["']|["']$/g, "").trim();
        this.know(inner);
        return `${start}${value.startsWith('"') ? `"${CENSORED}"` : CENSORED}`;
      },
    );
    return this.#withoutMet(replaced);
  }

  #withoutMet(text: string): string {
    const longestFirst = [...this.#met].sort((a, b) => b.length - a.length);
    return longestFirst.reduce((kept, secret) => kept.replaceAll(secret, CENSORED), text);
  }
}

/** Values under secret names, at every depth, as the file has them and as they are read. */
async function secretsIn(text: string): Promise<readonly string[]> {
  const { parseAllDocuments, visit, isNode, isScalar } = await import("yaml");
  const parsed = parseAllDocuments(text);
  const documents = Array.isArray(parsed) ? parsed : [];
  const wrong = documents.flatMap(({ errors }) => errors)[0];
  if (wrong !== undefined) throw wrong;
  const found: string[] = [];
  const add = (value: unknown): void => {
    if (typeof value !== "string" || isNothing(value)) return;
    // A value of several lines stands in the text with the indentation of its block.
    found.push(value, ...value.split("\n").map((line) => line.trim()));
  };
  for (const document of documents) {
    const isKubernetesSecret = document.get("kind") === "Secret";
    visit(document, {
      Pair(_key, { key, value }) {
        if (!isScalar(key) || !isNode(value)) return;
        const name = String(key.value);
        const isKey = name.toLowerCase().endsWith("key") && isScalar(value) && KEY.test(String(value.value));
        if (!isSecret(name) && !isKey && !(isKubernetesSecret && name === "data")) return;
        visit(value, {
          Scalar(_at, scalar) {
            add(scalar.value);
            add(scalar.source);
          },
        });
      },
    });
  }
  return found;
}

function isSecret(name: string): boolean {
  const plain = name.replaceAll(/[_.-]/g, "");
  return (isSecretName(plain) || isSecretName(name) || SECRET.test(name)) && !HARMLESS.test(plain);
}

/** What is no secret, or is one no more. */
function isNothing(value: string): boolean {
  if (value.includes(CENSORED.slice(0, -1))) return true;
  return /^(["']?)(null|true|false|none|~|\d{1,5}|)\1$/i.test(value.trim());
}
