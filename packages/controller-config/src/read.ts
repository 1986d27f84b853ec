import {
  type ConfigProblem,
  checkConfig,
  type Environment,
  type Path,
  type Place,
  type ProblemWords,
  readConfigText,
  readDocument,
  replaceVariables,
  SHELL_VARIABLES,
} from "@sallyport/config-file";
import { Scalar } from "yaml";
import type { z } from "zod";
import { type ReplicaOptions, replicaOf } from "./replica.ts";
import { type ControllerConfig, controllerConfigSchema } from "./schema.ts";
import { checkWorkers } from "./workers.ts";

/** A usable configuration, and what its author should look at. */
export interface ConfigRead {
  readonly config: ControllerConfig;
  /** Unknown keys and unset variables. */
  readonly warnings: readonly ConfigProblem[];
  /** Where a value stands, for a problem that is found later: `placeOf(["api", "serverCertificates", 0, "cert"])`. For a missing key: the deepest key above it. */
  placeOf(path: Path): Place;
}

/** Values that are never shown. */
const isSecret = ([section, key]: Path): boolean => section === "database" && key === "url";

/** Reads and checks a file. @throws ConfigError with every problem, also when the file cannot be read */
export async function readControllerConfigFile(
  file: string,
  env: Environment = process.env,
  options: ReplicaOptions = {},
): Promise<ConfigRead> {
  return readControllerConfig(await readConfigText(file), file, env, options);
}

/**
 * Checks the text of `controller.yml`: environment variables are put in first, then everything is checked at once.
 * @param options what this process says in place of the section `replica`
 * @throws ConfigError with every problem and its place
 */
export function readControllerConfig(
  text: string,
  file = "controller.yml",
  env: Environment = process.env,
  options: ReplicaOptions = {},
): ConfigRead {
  const unset: ConfigProblem[] = [];
  const scalar = (node: Scalar, place: Place): unknown => {
    const { value } = node;
    if (typeof value !== "string") return value ?? undefined;
    const replaced = replaceVariables(value, SHELL_VARIABLES, env, (name) => {
      const expected = `the environment variable ${name}`;
      unset.push({ path: "", ...place, expected, found: "none, so empty text is used" });
    });
    return replaced !== value && node.type === Scalar.PLAIN ? typed(replaced) : replaced;
  };
  const document = readDocument(text, { dialect: { form: "strict", scalar }, file, content: "keys and values" });
  const placeOf = document.valuePlace;
  const { config, warnings } = checkConfig(controllerConfigSchema, document.root, { words, document, placeOf, file });
  const read = { ...config, replica: replicaOf(config.replica, options, env) };
  checkWorkers(read, placeOf, file);
  return { config: read, warnings: [...warnings, ...unset], placeOf };
}

/** A plain (not quoted) value that becomes a number or a boolean is one. */
function typed(text: string): string | number | boolean {
  if (/^[-+]?\d+(\.\d+)?$/.test(text)) return Number(text);
  return text === "true" || text === "false" ? text === "true" : text;
}

const KINDS: Readonly<Record<string, string>> = {
  object: "keys and values",
  string: "text",
  number: "a number",
  int: "a whole number",
};

const words: ProblemWords = {
  expected(issue: z.core.$ZodIssue): string {
    switch (issue.code) {
      case "too_small":
        return `at least ${issue.minimum}${issue.origin === "string" ? " characters" : ""}`;
      case "too_big":
        return `at most ${issue.maximum}`;
      case "invalid_union":
        return issue.message.startsWith("Invalid input") ? "text or a number" : issue.message;
      case "unrecognized_keys":
        return `known keys only, which ${issue.keys.join(", ")} is not`;
      case "invalid_type":
        return issue.message.startsWith("Invalid input") ? (KINDS[issue.expected] ?? issue.expected) : issue.message;
      default:
        return issue.message;
    }
  },
  found(value: unknown, path: Path): string {
    if (value === undefined || value === null) return "nothing";
    if (isSecret(path)) return "another text (not shown, as it may hold a password)";
    if (Array.isArray(value)) return "a list";
    if (typeof value !== "object") return JSON.stringify(value);
    const keys = Object.keys(value);
    return keys.length > 0 ? `the keys ${keys.join(", ")}` : "no keys";
  },
};
