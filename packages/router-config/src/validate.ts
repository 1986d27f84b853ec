import {
  type ConfigDocument,
  type ConfigProblem,
  checkConfig,
  type Environment,
  type Path,
  type Place,
  type ProblemWords,
  readConfigText,
} from "@sallyport/config-file";
import { PlainScalar, readRouterDocument } from "./document.ts";
import { type RouterConfig, routerConfigSchema } from "./schema.ts";
import { type IdleKey, idleKeys } from "./without-effect.ts";

/** A configuration and what is odd about its file without making it unusable. */
export interface LoadedRouterConfig {
  readonly config: RouterConfig;
  readonly warnings: readonly ConfigProblem[];
  /** Keys that are known and change nothing, with the reason of each. */
  readonly idle: readonly IdleKey[];
  /** Where a key stands, or the nearest one above it that is there; undefined when the configuration came from no file. */
  placeOf(path: Path): Place | undefined;
}

export interface ReadOptions {
  /** Named in errors. */
  readonly file?: string;
  /** For `$VAR` and `${VAR}`; the process' environment when absent. */
  readonly env?: Environment;
}

/**
 * Checks the text of a configuration file.
 *
 * @throws ConfigError with every error at once, each with path, line and column
 */
export function parseRouterConfig(source: string, options: ReadOptions = {}): LoadedRouterConfig {
  const document = readRouterDocument(source, options.env ?? process.env, options.file);
  return validateRouterConfig(document.root, document, options.file);
}

/** Reads and checks a configuration file. @throws ConfigError, also when the file cannot be read */
export async function loadRouterConfig(
  file: string,
  options: Omit<ReadOptions, "file"> = {},
): Promise<LoadedRouterConfig> {
  return parseRouterConfig(await readConfigText(file), { ...options, file });
}

/** Checks a configuration. @param document where it comes from; without it problems have no line. @throws ConfigError */
export function validateRouterConfig(root: unknown, document?: ConfigDocument, file?: string): LoadedRouterConfig {
  const { config, warnings } = checkConfig(routerConfigSchema, root, { words, document, file });
  return { config, warnings, idle: idleKeys(root), placeOf: (path) => document?.keyPlace(path) };
}

const words: ProblemWords = {
  expected(issue) {
    if (issue.code === "custom" && typeof issue.params?.expected === "string") return issue.params.expected;
    if (issue.code === "invalid_union") return "a binding: edge, tunnel, transport, transport_udp, proxy or proxy_udp";
    return issue.message;
  },
  /** At most 60 characters, and nothing of values that may be secret. */
  found(value, path) {
    if (value === undefined || value === null) return "nothing";
    if (Array.isArray(value)) return "a list";
    if (typeof value === "object" && !(value instanceof PlainScalar)) return "a mapping";
    const body = value instanceof PlainScalar ? value.text : String(value);
    if (/key|password|pin/i.test(String(path.at(-1))) || body.includes("-----BEGIN")) return "a value not shown here";
    const short = body.length > 60 ? `${body.slice(0, 57)}...` : body;
    return typeof value === "string" ? JSON.stringify(short) : short;
  },
};
