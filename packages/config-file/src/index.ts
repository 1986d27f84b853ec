/**
 * What the configuration files of all programs share: YAML with the place of every key, a check against a schema that
 * reports every problem at once, the nearest known key for an unknown one, durations and environment variables.
 *
 * ```ts
 * const document = readDocument(text, { file, dialect, content: "keys and values" });
 * const { config, warnings } = checkConfig(schema, document.root, { document, file, words });
 * ```
 */

export { type CheckOptions, checkConfig, type ProblemWords, type SchemaNode } from "./check.ts";
export { type ConfigDocument, type Dialect, readConfigText, readDocument } from "./document.ts";
export { formatDuration, parseDuration } from "./duration.ts";
export { type Environment, GO_VARIABLES, replaceVariables, SHELL_VARIABLES } from "./environment.ts";
export { nearestName } from "./nearest-name.ts";
export {
  atPlace,
  ConfigError,
  type ConfigProblem,
  formatPath,
  formatProblem,
  type Path,
  type Place,
} from "./problems.ts";
