import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const PROGRAM = process.env.SALLYPORT_TOFU ?? "";
/** The provider's program, and the configurations of its own tests. */
const PROVIDER = process.env.SALLYPORT_TERRAFORM_PROVIDER ?? "";

export const isMissing = PROGRAM === "" || PROVIDER === "";

/** One of the provider's own tests. */
export interface Configuration {
  readonly name: string;
  readonly text: string;
}

/** Those of a folder; what refers to another one comes after it. */
export function configurations(folder: "resources" | "data-sources"): Configuration[] {
  if (isMissing) return [];
  const all = readdirSync(join(PROVIDER, "testing", folder))
    .toSorted()
    .map((kind) => {
      const name = `${folder}/${kind}`;
      return { name, text: readFileSync(join(PROVIDER, "testing", name, "main.tf"), "utf8") };
    });
  const refers = ({ text }: Configuration): boolean => /^data "/m.test(text);
  return [...all.filter((one) => !refers(one)), ...all.filter(refers)];
}

/** One of ours: theirs leave hardly any list empty. */
export const LEAST: Configuration = {
  name: "least",
  text: readFileSync(join(import.meta.dirname, "least.tf"), "utf8"),
};

/** How a command ended, and what it printed. */
export interface Ended {
  readonly code: number;
  readonly output: string;
}

/** OpenTofu with the provider, as the administrator of one controller; it asks no registry. */
export class Tofu {
  readonly #folder: string;
  readonly #env: NodeJS.ProcessEnv;

  constructor(folder: string, port: number, password: string) {
    this.#folder = folder;
    const settings = join(folder, "tofu.rc");
    const overrides = `dev_overrides {\n    "netfoundry/ziti" = ${JSON.stringify(PROVIDER)}\n  }`;
    writeFileSync(settings, `provider_installation {\n  ${overrides}\n}\n`);
    this.#env = {
      ...process.env,
      HOME: folder,
      TF_CLI_CONFIG_FILE: settings,
      TF_IN_AUTOMATION: "1",
      ZITI_API_HOST: `https://localhost:${port}/edge/management/v1`,
      ZITI_API_USERNAME: "admin",
      ZITI_API_PASSWORD: password,
    };
  }

  /** Gives a configuration its folder. */
  write({ name, text }: Configuration): void {
    mkdirSync(join(this.#folder, name), { recursive: true });
    writeFileSync(join(this.#folder, name, "main.tf"), text);
  }

  /** Runs a command in the folder of a configuration to its end. */
  async run(name: string, command: string, ...options: readonly string[]): Promise<Ended> {
    const args = [command, "-input=false", "-no-color", ...options];
    return await new Promise((resolve, reject) => {
      const cwd = join(this.#folder, name);
      execFile(PROGRAM, args, { cwd, env: this.#env, timeout: 60_000 }, (error, stdout, stderr) => {
        const output = `${stdout}${stderr}`;
        if (error === null) resolve({ code: 0, output });
        else if (typeof error.code === "number") resolve({ code: error.code, output });
        else reject(new Error(`tofu ${command} of ${name} did not end by itself: ${error.message}\n${output}`));
      });
    });
  }
}
