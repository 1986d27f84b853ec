/** What is done with a cluster by kubectl: with any, however it was come by. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** kubectl ended with an error. */
export class KubectlError extends Error {
  readonly ran: Ran;

  constructor(args: readonly string[], ran: Ran) {
    super(`kubectl ${args.join(" ")} ended with ${ran.code}: ${ran.stderr.trim() || ran.stdout.trim()}`);
    this.name = "KubectlError";
    this.ran = ran;
  }
}

export interface KubectlOptions {
  /** Path of the program. */
  readonly program: string;
  /** Path of the admin's kubeconfig. */
  readonly kubeconfig: string;
  /** For what kubectl keeps, and for other kubeconfigs; its maker removes it. */
  readonly folder: string;
}

export class Kubectl {
  /** Path of the admin's kubeconfig, which holds its key and certificates. */
  readonly kubeconfig: string;
  readonly #program: string;
  readonly #folder: string;

  constructor({ program, kubeconfig, folder }: KubectlOptions) {
    this.kubeconfig = kubeconfig;
    this.#program = program;
    this.#folder = folder;
  }

  /** Runs kubectl as admin; resolves with what it printed. @throws KubectlError */
  async kubectl(args: readonly string[], stdin?: string): Promise<string> {
    const ran = await this.attempt(args, stdin);
    if (ran.code !== 0) throw new KubectlError(args, ran);
    return ran.stdout;
  }

  /** The same, resolving with the exit code whatever it is. */
  async attempt(args: readonly string[], stdin?: string): Promise<Ran> {
    const child = spawn(this.#program, args, {
      stdio: ["pipe", "pipe", "pipe"],
      env: { ...process.env, KUBECONFIG: this.kubeconfig, KUBECACHEDIR: join(this.#folder, "kubectl") },
    });
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      child[name].setEncoding("utf8").on("data", (text: string) => {
        output[name] += text;
      });
    }
    child.stdin.on("error", () => {});
    child.stdin.end(stdin ?? "");
    const [code] = (await once(child, "close")) as [number | null];
    return { code: code ?? 1, ...output };
  }

  /** An object by its kind (or resource) and name, as JSON. */
  async get<T>(resource: string, name: string, namespace = "default"): Promise<T> {
    return JSON.parse(await this.kubectl(["get", resource, name, "--namespace", namespace, "--output", "json"])) as T;
  }

  /** Server-side apply of manifests; unknown fields are refused. */
  async apply(yaml: string): Promise<string> {
    return await this.kubectl(["apply", "--server-side", "--force-conflicts", "--validate=strict", "-f", "-"], yaml);
  }

  /**
   * A kubeconfig of a service account, which is made unless it is there: for a program beside the cluster that has the
   * rights of a pod. Good for a day; resolves with its path.
   */
  async kubeconfigOf(serviceAccount: string, namespace = "default"): Promise<string> {
    const args = [serviceAccount, "--namespace", namespace];
    if ((await this.attempt(["get", "serviceaccount", ...args])).code !== 0)
      await this.kubectl(["create", "serviceaccount", ...args]);
    const token = (await this.kubectl(["create", "token", ...args, "--duration=24h"])).trim();
    const admin = JSON.parse(await this.kubectl(["config", "view", "--raw", "--minify", "--output", "json"])) as {
      contexts: [{ context: object }];
    };
    admin.contexts[0].context = { ...admin.contexts[0].context, user: "user" };
    const folder = join(this.#folder, "kubeconfigs");
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const file = join(folder, `${namespace}.${serviceAccount}.kubeconfig`);
    writeFileSync(file, JSON.stringify({ ...admin, users: [{ name: "user", user: { token } }] }), { mode: 0o600 });
    return file;
  }
}
