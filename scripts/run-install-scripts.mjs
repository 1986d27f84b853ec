// Runs the install scripts that package.json allows (`allowScripts`), and no others, whatever the version of npm: .npmrc keeps npm from
// running any by itself. Plain JavaScript, because it runs on the Node that is there before ours is.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const readJson = (name) => JSON.parse(readFileSync(join(root, name), "utf8"));

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

const { allowScripts } = readJson("package.json");
const withScripts = Object.entries(readJson("package-lock.json").packages).flatMap(
  ([path, { hasInstallScript, name, version }]) => {
    const folder = path.split("node_modules/").at(-1);
    // Of an alias the folder has another name than the package.
    return hasInstallScript === true ? [{ path, folder, name: name ?? folder, version }] : [];
  },
);
const undecided = withScripts.filter(({ name }) => !Object.hasOwn(allowScripts, name)).map(({ name }) => name);
if (undecided.length > 0) {
  fail(
    `these packages have install scripts: ${undecided.join(", ")}. Allow or refuse each in allowScripts of package.json`,
  );
}

const wanted = withScripts.filter(({ path, name }) => allowScripts[name] && existsSync(join(root, path)));
const record = join(root, "node_modules", ".install-scripts");
const text = wanted
  .map(({ path, version }) => `${path}@${version}\n`)
  .sort()
  .join("");
if (!existsSync(record) || readFileSync(record, "utf8") !== text) {
  const names = wanted.map(({ folder }) => folder);
  // Without names npm would rebuild every package, and run every script.
  if (names.length > 0) {
    const npm = ["rebuild", "--ignore-scripts=false", "--loglevel=error", ...names];
    const { status, error } = spawnSync("npm", npm, { cwd: root, stdio: ["ignore", "ignore", "inherit"] });
    if (status !== 0) fail(`the install scripts of ${names.join(", ")} failed${error ? `: ${error.message}` : ""}`);
  }
  writeFileSync(record, text);
}

// The package of Node brings its C headers, a third of its size. They are for packages that compile native code, and none here does.
const nodes = join(root, "node_modules/node/node_modules");
for (const name of existsSync(nodes) ? readdirSync(nodes) : []) {
  const headers = join(nodes, name, "include");
  if (existsSync(headers)) rmSync(headers, { recursive: true });
}
