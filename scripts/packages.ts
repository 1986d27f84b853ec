/** Makes the npm packages alone: `node scripts/packages.ts`, `make packages`. A release (release/main.ts) has the same under `npm/`. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { libraryTarballs, programTarballs } from "./release/npm-tarballs.ts";

const ROOT = join(import.meta.dirname, "..");
const OUT = join(ROOT, "dist", "packages");

const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
const work = mkdtempSync(join(ROOT, "dist", "packages-work-"));
try {
  const release = { root: ROOT, version, madeAt: 0 };
  const libraries = libraryTarballs({ ...release, folder: join(work, "compiled") });
  for (const { file, bytes } of [...libraries, ...(await programTarballs(release, work))]) {
    writeFileSync(join(OUT, file), bytes);
    const path = relative(process.cwd(), join(OUT, file));
    console.log(`${(bytes.length / 1e6).toFixed(2).padStart(8)} MB  ${path}`);
  }
} finally {
  rmSync(work, { recursive: true, force: true });
}
