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
import { resolvePlain } from "./plain-scalar.ts";

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
