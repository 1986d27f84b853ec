/**
 * Starts every program once, the way a user does, and expects its version: by its name in `node_modules/.bin`, and packed
 * as JavaScript.
 */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { pack } from "./pack.ts";

const bin = join(import.meta.dirname, "..", "node_modules", ".bin");

function expectVersion(program: string, command: string, ...args: string[]): void {
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
  const version = execFileSync(command, [...args, "--version"], { encoding: "utf8", env, timeout: 60_000 }).trim();
  if (!/\d+\.\d+\.\d+/.test(version))
    throw new Error(`${program} --version printed ${JSON.stringify(version)}, expected a version`);
  console.log(`${program}: ${version}`);
}

for (const program of ["controller", "router", "operator", "tunnel", "cli"]) {
  const name = program === "cli" ? "sallyport" : `sallyport-${program}`;
  expectVersion(name, join(bin, name));
  const file = await pack(program);
  expectVersion(`${name}, packed`, join(bin, "node"), file);
  // Threads look for their program beside the packed one, and only when they are asked for.
  if (program === "router" && !existsSync(join(dirname(file), "tls-worker.js")))
    throw new Error("the packed router has no tls-worker.js beside it: its edge listeners could have no workers");
}
