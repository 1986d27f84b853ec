import { ConfigError, formatProblem } from "@sallyport/config-file";
import { parseRouterConfig } from "../validate.ts";

/** All that a router's file must have. */
export const base = `v: 3
identity: { cert: r1.cert, server_cert: r1.server.chain.cert, key: r1.key, ca: r1.cas }
ctrl: { endpoint: "tls:ctrl.example:6262" }
`;

/** Reads it with more lines behind it. */
export const read = (more = "", env = {}) => parseRouterConfig(base + more, { file: "router.yml", env });

/** What is wrong with a text, as users see it; nothing when it is valid. */
export const problems = (text: string, env = {}): string[] => {
  try {
    parseRouterConfig(text, { file: "router.yml", env });
  } catch (error) {
    if (error instanceof ConfigError) return error.problems.map((p) => formatProblem(p, error.file));
    throw error;
  }
  return [];
};
