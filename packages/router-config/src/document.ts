import { tmpdir } from "node:os";
import {
  type ConfigDocument,
  type Environment,
  formatPath,
  GO_VARIABLES,
  readDocument,
  replaceVariables,
} from "@sallyport/config-file";
import type { Scalar } from "yaml";

/**
 * Reads YAML as OpenZiti's routers do: YAML 1.1 scalars without base 60, merge keys, aliases, the last of two equal keys
 * wins (with a warning), only the first document counts. `$VAR` and `${VAR}` are replaced in every text value, never in
 * keys, numbers or booleans; the result stays text. Scalars are text or `PlainScalar`.
 *
 * @throws ConfigError with the place of each syntax error
 */
export function readRouterDocument(source: string, variables: Environment, file?: string): ConfigDocument {
  const env = { TMP: tmpdir(), TEMP: tmpdir(), TMPDIR: tmpdir(), ...variables };
  const scalar = (node: Scalar): unknown => {
    const text = String(node.value ?? "");
    const plain = node.type === "PLAIN" && node.tag === undefined ? resolvePlain(node.source ?? text) : text;
    if (plain === null) return undefined;
    return typeof plain === "string" ? replaceVariables(text, GO_VARIABLES, env) : plain;
  };
  const content = "a mapping with the key v: 3";
  const document = readDocument(source, { dialect: { form: "lenient", scalar }, file, content });
  const empty = document.emptyKeys
    .filter((path) => path.length === 1)
    .map((path) => ({
      path: formatPath(path),
      ...document.keyPlace(path),
      expected: "a value ({} for an empty mapping)",
      found: "nothing",
    }));
  return { ...document, warnings: [...document.warnings, ...empty] };
}

/**
 * A plain (unquoted) scalar that YAML 1.1 reads as something else than text. Both readings are kept, because
 * `organization: N` is meant as text and `split: no` as a boolean: the schema of the key decides.
 */
export class PlainScalar {
  readonly text: string;
  readonly value: boolean | number;

  constructor(text: string, value: boolean | number) {
    this.text = text;
    this.value = value;
  }
}

const TRUE = /^(?:y|Y|yes|Yes|YES|true|True|TRUE|on|On|ON)$/;
const FALSE = /^(?:n|N|no|No|NO|false|False|FALSE|off|Off|OFF)$/;
const NULL = /^(?:|~|null|Null|NULL)$/;
const INTEGER = /^[-+]?(?:0x[0-9a-fA-F]+|0o[0-7]+|0b[01]+|\d+)$/;
const FLOAT = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$/;

/** What an unquoted scalar means: text, a number or boolean with its text, or null. Base 60 and dates stay text. */
export function resolvePlain(text: string): string | PlainScalar | null {
  if (NULL.test(text)) return null;
  if (TRUE.test(text)) return new PlainScalar(text, true);
  if (FALSE.test(text)) return new PlainScalar(text, false);
  const digits = text.replaceAll("_", "");
  if (/^[-+]?[\d.]/.test(text)) {
    if (INTEGER.test(digits)) return new PlainScalar(text, integerOf(digits));
    if (FLOAT.test(digits)) return new PlainScalar(text, Number(digits));
  }
  return text;
}

function integerOf(digits: string): number {
  const sign = digits.startsWith("-") ? -1 : 1;
  const body = digits.replace(/^[-+]/, "");
  const octal = /^0[0-7]+$/.test(body) ? `0o${body.slice(1)}` : body;
  return sign * Number(octal);
}
