import { readFileSync } from "node:fs";
import { join } from "node:path";

/** The repository. */
export const ROOT = join(import.meta.dirname, "../..");

const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
export const VERSION = version;
