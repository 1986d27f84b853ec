import { existsSync } from "node:fs";
import { join } from "node:path";
import type { RolldownOutput } from "rolldown";
import { LicenseError } from "./license-texts.ts";

const MODULES = "/node_modules/";
/** What the packer puts in by itself: a few lines of its own. */
const OWN_OF_PACKER = "\0rolldown/";

/**
 * Packages of npm of which there is code in what was packed; not those of which nothing was left.
 *
 * @param root of the repository, whose own files are none
 * @returns their folders, each once, in one order
 * @throws LicenseError for code of which it is not known whose it is
 */
export function bundledPackages(root: string, output: RolldownOutput["output"]): string[] {
  const homes = new Set<string>();
  for (const piece of output) {
    if (piece.type !== "chunk") continue;
    for (const [id, { renderedLength }] of Object.entries(piece.modules)) {
      const home = renderedLength === 0 ? undefined : homeOf(root, id);
      if (home !== undefined) homes.add(home);
    }
  }
  return [...homes].sort();
}

function homeOf(root: string, id: string): string | undefined {
  if (id.startsWith(OWN_OF_PACKER)) return join(root, "node_modules", "rolldown");
  const at = id.lastIndexOf(MODULES);
  if (at < 0 && id.startsWith(`${root}/`)) return undefined;
  const [scope = "", name = ""] = id.slice(at + MODULES.length).split("/");
  const home = join(id.slice(0, at), "node_modules", scope.startsWith("@") ? join(scope, name) : scope);
  if (at >= 0 && existsSync(join(home, "package.json"))) return home;
  throw new LicenseError(`it is not known of which package ${JSON.stringify(id)} is, which is in the packed program`);
}
