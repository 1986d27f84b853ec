import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, rm, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..");
const LEAN = expect.stringMatching(/^npm ci --omit=dev .*--workspace=e2e /);
const FULL = "npm ci --loglevel=error";
const RECORD = "node_modules/.package-lock.json";
const TOOL = "node_modules/vitest/package.json";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-makefile-"));
  await cp(join(ROOT, "Makefile"), join(dir, "Makefile"));
  await put("package.json", 1);
  await put("package-lock.json", 1);
});

afterEach(() => rm(dir, { recursive: true }));

/** A file of this age: a higher time is newer. */
async function put(name: string, time: number): Promise<void> {
  await mkdir(dirname(join(dir, name)), { recursive: true });
  await writeFile(join(dir, name), "");
  await utimes(join(dir, name), time, time);
}

/** The installs that make would run, without running them. */
async function installs(...goals: readonly string[]): Promise<readonly string[]> {
  // A make that runs these tests passes its options on by these variables.
  const { MAKEFLAGS: _flags, MFLAGS: _old, MAKELEVEL: _level, ...env } = process.env;
  const { stdout } = await promisify(execFile)("make", ["--dry-run", ...goals], { cwd: dir, env });
  return stdout.split("\n").filter((line) => line.startsWith("npm ci"));
}

describe("make, where nothing is installed,", () => {
  it("installs for the demo without the tools of development", async () => {
    expect(await installs("demo", "CHECK=1")).toEqual([LEAN]);
  });

  it.each([[["test"]], [["check"]], [["demo", "test"]], [["test", "demo"]]])(
    "installs for %j once, with the tools",
    async (goals) => {
      expect(await installs(...goals)).toEqual([FULL]);
    },
  );

  it("installs nothing for its help", async () => {
    expect(await installs("help")).toEqual([]);
  });

  it("starts again after an install that was interrupted, of the same kind", async () => {
    await put("node_modules/fastify/package.json", 2);
    expect(await installs("demo")).toEqual([LEAN]);
    await put(TOOL, 2);
    expect(await installs("demo")).toEqual([FULL]);
  });
});

describe("make, where the demo's packages are installed,", () => {
  beforeEach(() => put(RECORD, 2));

  it("installs nothing for the demo", async () => {
    expect(await installs("demo")).toEqual([]);
  });

  it.each([[["test"]], [["demo", "test"]]])("brings the tools for %j", async (goals) => {
    expect(await installs(...goals)).toEqual([FULL]);
  });

  it("installs them again when the lock file is newer", async () => {
    await put("package-lock.json", 3);
    expect(await installs("demo")).toEqual([LEAN]);
  });
});

describe("make, where everything is installed,", () => {
  beforeEach(async () => {
    await put(RECORD, 2);
    await put(TOOL, 2);
  });

  it.each([[["demo"]], [["test"]], [["demo", "test"]]])("installs nothing for %j", async (goals) => {
    expect(await installs(...goals)).toEqual([]);
  });

  it("keeps the tools when the demo finds a newer lock file", async () => {
    await put("package-lock.json", 3);
    expect(await installs("demo")).toEqual([FULL]);
  });
});
