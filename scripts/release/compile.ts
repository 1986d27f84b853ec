import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

/** The oldest Node for which libraries are written; newer syntax is put into its words. */
const TARGET = "es2023";

/**
 * Compiles packages of the repository as JavaScript and declarations, without their tests, into a folder with the shape of the repository.
 *
 * @param root of the repository
 * @param folders of the packages, below it; each that another one imports has to be among them
 * @param o.isChecked types were checked before: half of the work
 * @throws Error with what the compiler says
 */
export function compile(root: string, folders: readonly string[], out: string, o: { isChecked?: boolean } = {}): void {
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const config = join(out, "tsconfig.json");
  const compilerOptions = {
    noEmit: false,
    noCheck: o.isChecked === true,
    declaration: true,
    // What only the package itself calls would bring the types of the whole API: a user's compiler would read a megabyte.
    stripInternal: true,
    rewriteRelativeImportExtensions: true,
    target: TARGET,
    rootDir: root,
    outDir: resolve(out),
    typeRoots: [join(root, "node_modules/@types")],
  };
  const include = folders.map((folder) => join(root, folder, "src"));
  const exclude = folders.flatMap((folder) => [
    join(root, folder, "src/**/*.test.ts"),
    join(root, folder, "src/**/testing"),
  ]);
  writeFileSync(config, JSON.stringify({ extends: join(root, "tsconfig.json"), compilerOptions, include, exclude }));
  const compiler = join(root, "node_modules/.bin/tsc");
  const { status, stdout, stderr, error } = spawnSync(compiler, ["-p", config], { encoding: "utf8" });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`the compiler found faults in what is to be released:\n${stdout}${stderr}`);
}
