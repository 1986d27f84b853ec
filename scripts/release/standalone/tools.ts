import { spawnSync } from "node:child_process";
import { join } from "node:path";

/** What a release needs besides npm, from scripts/install-tools.sh; undefined where it cannot be had, which is said aloud. */
export function releaseTool(root: string, name: string, without: string): string | undefined {
  const { status, stdout, stderr } = spawnSync(join(root, "scripts/install-tools.sh"), [name], { encoding: "utf8" });
  if (status === 0) return stdout.trim();
  process.stderr.write(`*** ${without}: ${stderr.trim()}\n`);
  return undefined;
}
