/**
 * Holds the sources against the rules in `sources/`. Run by `make check`; prints every broken dependency rule and every second copy of `packages/async` with file and line,
 * import circles, files and folders that are too large, and every declared npm package that no source imports, and exits with 1 when there is any.
 */
import { dirname } from "node:path";
import { findFiles, readText, report } from "./repository.ts";
import { brokenRules } from "./sources/broken-rules.ts";
import { importCircles } from "./sources/circles.ts";
import { UNREACHED } from "./sources/dependency-rules.ts";
import { secondCopies } from "./sources/second-copies.ts";
import { tooLarge } from "./sources/sizes.ts";
import { forbiddenWays } from "./sources/unreached.ts";
import { unusedPackages } from "./sources/unused-packages.ts";

const files = findFiles("{packages/*,controller,router,operator,cli}/src/**/*.ts", ["**/generated/**"]);
const products = files.filter(
  (file) => !file.endsWith(".test.ts") && !file.includes("/testing") && !file.endsWith(".d.ts"),
);
const everything = findFiles(
  "{packages/*/src,controller/src,router/src,operator/src,cli/src,e2e,bench,images,scripts,examples}/**/*.ts",
);

const broken = [
  ...files
    .flatMap((file) => brokenRules(file, readText(file)))
    .map(
      ({ file, line, specifier, rule }) =>
        `${file}:${line}: must not import "${specifier}" (${rule.from}: ${rule.why})`,
    ),
  ...UNREACHED.flatMap((rule) =>
    forbiddenWays(rule, readText).map(
      (way) => `${way.join(" -> ")}: must not be loaded, for it imports "${rule.package}" (${rule.why})`,
    ),
  ),
];
const copies = everything
  .flatMap((file) => secondCopies(file, readText(file)))
  .map(
    ({ file, line, use }) =>
      `${file}:${line}: a second copy of ${use}: import it from @sallyport/async (scripts/sources/second-copies.ts)`,
  );
const circles = importCircles(products, readText).map(
  (circle) =>
    `these files import each other in a circle: ${circle.join(", ")}: move what both sides need into a file of its own`,
);
const large = tooLarge(products, readText);
const unused = findFiles("{packages/*,controller,router,operator,cli,e2e,bench}/package.json").flatMap((file) => {
  const { dependencies = {} } = JSON.parse(readText(file)) as { dependencies?: Record<string, string> };
  const sources = findFiles(`${dirname(file)}/**/*.ts`).map(readText);
  return unusedPackages(Object.keys(dependencies), sources).map(
    (name) => `${file}: nothing imports "${name}": npm uninstall it`,
  );
});

report(
  [...broken, ...copies, ...circles, ...large, ...unused],
  `dependency rules: ${files.length} files, ${broken.length} broken, ${circles.length} circles, ${large.length} too large, ${copies.length} second copies, ${unused.length} unused packages`,
);
