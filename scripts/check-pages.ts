/** Every page below `docs/` can be reached by links from `docs/index.md`. `npm run check` runs it. */
import { globSync } from "node:fs";
import { join } from "node:path";
import { FIRST_PAGE, reachablePages } from "./site/pages.ts";

const root = join(import.meta.dirname, "..");
const reachable = new Set(reachablePages(root));
const lost = globSync("docs/**/*.md", { cwd: root }).filter((page) => !reachable.has(page));
for (const page of lost) console.error(`${page}: no link leads here from ${FIRST_PAGE}; add one`);
console.log(`pages: ${reachable.size} reachable from ${FIRST_PAGE}, ${lost.length} without a way to them`);
process.exitCode = lost.length === 0 ? 0 : 1;
