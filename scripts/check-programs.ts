/** Starts every program once, the way a user does (its name in `node_modules/.bin`), and expects its version. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";

const bin = join(import.meta.dirname, "..", "node_modules", ".bin");

for (const program of ["sallyport-controller", "sallyport-router"]) {
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
  const version = execFileSync(join(bin, program), ["--version"], { encoding: "utf8", env, timeout: 60_000 }).trim();
  if (!/\d+\.\d+\.\d+/.test(version))
    throw new Error(`${program} --version printed ${JSON.stringify(version)}, expected a version`);
  console.log(`${program}: ${version}`);
}
