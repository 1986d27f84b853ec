import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Entry } from "@sallyport/program/archive/entry";
import { isElf } from "../elf/elf.ts";
import { librariesOf } from "../elf/libraries.ts";
import { placedEntries } from "./base.ts";
import { systemLicenses } from "./system-licenses.ts";

/** A program of the system that an image is to hold cannot be had. */
export class ToolError extends Error {
  override name = "ToolError";
}

const INSTALLER = join(import.meta.dirname, "..", "..", "scripts", "install-tools.sh");
const FOLDERS = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];
const TIMEOUT_MS = 300_000;

interface Tool {
  readonly path: string;
  /** Where its own libraries lie, if not with the system's. */
  readonly libraries: readonly string[];
  /** Where its package was unpacked, if not installed. */
  readonly unpacked: readonly string[];
}

/**
 * Programs of the system with their libraries, in `/usr/sbin`, where programs look for them, and with their licences.
 *
 * @throws ToolError, LicenseError
 */
export function toolEntries(names: readonly string[]): Entry[] {
  const tools = names.map((name) => ({ name, ...locate(name) }));
  const libraries = librariesOf(
    tools.map((tool) => tool.path),
    tools.flatMap((tool) => tool.libraries),
  );
  const programs = tools.map(({ name, path }) => ({ path: join("/usr/sbin", name), source: path }));
  const placed = [...programs, ...libraries];
  const licenses = systemLicenses(
    placed.map(({ source }) => source),
    tools.flatMap((tool) => tool.unpacked),
  );
  return [...placedEntries(placed), ...licenses];
}

/** @throws ToolError */
function locate(name: string): Tool {
  const found = FOLDERS.map((folder) => join(folder, name)).find((path) => existsSync(path) && isProgram(path));
  if (found !== undefined) return { path: found, libraries: [], unpacked: [] };
  if (name !== "nft") throw new ToolError(`the program ${name} is not on this machine: install it (package iproute2)`);
  const installer = spawnSync(INSTALLER, [name], { encoding: "utf8", timeout: TIMEOUT_MS });
  if (installer.status !== 0) throw new ToolError(`${name} cannot be had: ${installer.stderr.trim()}`);
  // A small script that names the libraries beside it: the program itself lies in the unpacked packages.
  const root = join(dirname(installer.stdout.trim()), "root");
  const script = readFileSync(join(installer.stdout.trim(), name), "utf8");
  const [, libraries = ""] = /^LD_LIBRARY_PATH=(\S+)/m.exec(script) ?? [];
  return { path: join(root, "usr/sbin", name), libraries: [libraries], unpacked: [root] };
}

function isProgram(path: string): boolean {
  return isElf(readFileSync(path));
}
