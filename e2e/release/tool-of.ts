import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { ROOT } from "../scenarios/root.ts";

/** A pinned tool, or a program in its folder; undefined where it cannot be had, which is said. */
export function toolOf(name: string, program?: string): string | undefined {
  const { status, stdout, stderr } = spawnSync(join(ROOT, "scripts/install-tools.sh"), [name], { encoding: "utf8" });
  if (status === 0) return program === undefined ? stdout.trim() : join(stdout.trim(), program);
  console.warn(`\n*** ${name} cannot be had here, and what needs it is skipped: ${stderr.trim()}\n`);
  return undefined;
}
