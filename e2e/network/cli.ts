import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pack } from "../../scripts/pack.ts";
import type { Network } from "./network.ts";

/** How a command line of `sallyport` ended, and what it printed. */
export interface CliResult {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

/** `sallyport` with a folder of settings of its own. */
export class Cli {
  /** The file that is started. */
  readonly main: string;
  readonly #folder: string;
  readonly #env: Readonly<Record<string, string>>;

  /**
   * @param main its packed form: from its sources each command line would take seconds
   * @param folder in which it keeps its logins
   */
  constructor(main: string, folder: string, env: Readonly<Record<string, string>> = {}) {
    mkdirSync(folder, { recursive: true });
    this.main = main;
    this.#folder = folder;
    this.#env = { SALLYPORT_CONFIG_DIR: join(folder, "settings"), NO_COLOR: "1", ...env };
  }

  /** Packs it into a folder. */
  static async packed(folder: string): Promise<Cli> {
    return new Cli(await pack("cli", join(folder, "sallyport")), folder);
  }

  /** The environment that it runs in. */
  get env(): NodeJS.ProcessEnv {
    return { ...process.env, ...this.#env };
  }

  /** Runs a command line to its end. */
  async run(...args: string[]): Promise<CliResult> {
    return await this.runWith({ input: "" }, ...args);
  }

  /** The same with a text on the standard input, or a further environment. */
  async runWith(
    { input, env = {} }: { readonly input: string; readonly env?: Readonly<Record<string, string>> },
    ...args: string[]
  ): Promise<CliResult> {
    const child = spawn(process.execPath, [this.main, ...args], { env: { ...this.env, ...env } });
    // It may end before it has read everything.
    child.stdin.on("error", () => undefined);
    child.stdin.end(input);
    const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
    const [output, errors, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    return { code, output, errors };
  }

  /** The output of a command line that has to succeed. */
  async done(...args: string[]): Promise<string> {
    const { code, output, errors } = await this.run(...args);
    if (code !== 0) throw new Error(`sallyport ${args.join(" ")} ended with ${code}: ${errors}`);
    return output;
  }

  /** Logs in as the administrator of a network, trusted by the fingerprint that its controller prints. */
  async login(network: Network, name = "one"): Promise<void> {
    const passwordFile = join(this.#folder, `${name}-password`);
    writeFileSync(passwordFile, `${network.adminPassword}\n`, { mode: 0o600 });
    const { output } = await network.runToEnd("controller", "pki", "status", network.controllerFile);
    const [, fingerprint = ""] = /SHA-256 ([0-9A-F:]+)/.exec(output) ?? [];
    const way = ["-u", "admin", "--password-file", passwordFile, "--fingerprint", fingerprint, "-n", name];
    await this.done("login", `https://localhost:${network.port}`, ...way);
  }
}
