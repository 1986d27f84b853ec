import { execFile } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** OpenZiti's CLI with a login folder of its own, so that suites never meet each other's sessions. */
export class PeerCli {
  readonly #binary: string;
  /** What makes another process of OpenZiti use the same login. */
  readonly env: Readonly<Record<string, string>>;

  constructor(binary: string, folder: string) {
    this.#binary = binary;
    const config = join(folder, "cli");
    mkdirSync(config, { recursive: true });
    this.env = { ZITI_CONFIG_DIR: config, ZITI_HOME: folder };
  }

  /** Runs a command and resolves with what it printed; rejects with its output when it fails. */
  async run(...args: readonly string[]): Promise<string> {
    try {
      const { stdout, stderr } = await run(this.#binary, args, {
        env: { ...process.env, ...this.env },
        timeout: 60_000,
        maxBuffer: 16 << 20,
      });
      return `${stdout}${stderr}`;
    } catch (error) {
      const { stdout = "", stderr = "", message } = error as Error & { stdout?: string; stderr?: string };
      throw new Error(`ziti ${args.join(" ")} failed: ${message}\n${stdout}${stderr}`);
    }
  }

  /** `ziti edge …`. */
  async edge(...args: readonly string[]): Promise<string> {
    return await this.run("edge", ...args);
  }

  /** `ziti edge list KIND FILTER -j`: the entities. */
  async listed(kind: string, filter = "true"): Promise<readonly Readonly<Record<string, unknown>>[]> {
    return entitiesIn(await this.edge("list", kind, filter, "-j"));
  }

  /** `ziti fabric list KIND -j`: the entities. */
  async fabricListed(kind: string): Promise<readonly Readonly<Record<string, unknown>>[]> {
    return entitiesIn(await this.run("fabric", "list", kind, "-j"));
  }
}

/** What was printed before the JSON is for people. */
function entitiesIn(output: string): readonly Readonly<Record<string, unknown>>[] {
  const { data } = JSON.parse(output.slice(output.indexOf("{"))) as {
    data?: readonly Readonly<Record<string, unknown>>[];
  };
  return data ?? [];
}
