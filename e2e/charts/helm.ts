/** Helm, as a user starts it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { toolIfAny, withoutTool } from "../cluster/tools.ts";

const ROOT = join(import.meta.dirname, "..", "..");

/** A tool of the charts' tests can't be had on this machine; the message says which one. */
export class NoToolError extends Error {
  override readonly name = "NoToolError";
}

/** Helm ended with an error; the message has what it printed. */
export class HelmError extends Error {
  override readonly name = "HelmError";
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;

  constructor(args: readonly string[], code: number, stdout: string, stderr: string) {
    super(`helm ${args.join(" ")} ended with ${code}: ${stderr.trim() || stdout.trim()}`);
    this.code = code;
    this.stdout = stdout;
    this.stderr = stderr;
  }
}

export interface HelmOptions {
  /** File that leads to the cluster; without it there is none, as `helm template` and `helm lint` need none. */
  readonly kubeconfig?: string;
  /** For `--values -`, and for what else reads it. */
  readonly stdin?: string;
}

/**
 * Runs helm in the repository's folder; resolves with what it printed.
 *
 * @throws HelmError what it printed when it failed
 * @throws NoToolError
 */
export async function helm(args: readonly string[], { kubeconfig, stdin = "" }: HelmOptions = {}): Promise<string> {
  const child = spawn(toolPath("helm"), args, {
    cwd: ROOT,
    env: { ...process.env, KUBECONFIG: kubeconfig ?? "/dev/null" },
    stdio: ["pipe", "pipe", "pipe"],
  });
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name].setEncoding("utf8").on("data", (text: string) => {
      output[name] += text;
    });
  }
  // It may end without having read all of it.
  child.stdin.on("error", () => {});
  child.stdin.end(stdin);
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new HelmError(args, code ?? 1, output.stdout, output.stderr);
  return output.stdout;
}

const found = new Map<string, string>();

/**
 * The path of a tool, which is built the first time.
 *
 * @throws NoToolError when this machine can't have it
 */
export function toolPath(name: "helm" | "kubeconform" | "health" | "gitops-crds"): string {
  const known = found.get(name);
  if (known !== undefined) return known;
  const path = toolIfAny(name);
  if (path === undefined) throw new NoToolError(withoutTool(name));
  found.set(name, path);
  return path;
}
