import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Profiles } from "./profiles.ts";

let dir: string;

beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), "sallyport-profiles-"));
});

afterEach(async () => {
  await rm(dir, { recursive: true });
});

async function json(name: string): Promise<Record<string, unknown>> {
  return JSON.parse(await readFile(join(dir, name), "utf8")) as Record<string, unknown>;
}

it("writes a CPU profile into the file that is named, once, when it is ended, in the form of Chrome DevTools", async () => {
  const profiles = await Profiles.start({ cpu: { path: "cpu.profile" }, baseDir: dir, log: silentLogger });
  for (let i = 0, until = performance.now() + 20; performance.now() < until; i++) JSON.stringify({ i });
  await profiles.endCpu();
  const profile = await json("cpu.profile");
  expect(Object.keys(profile)).toEqual(
    expect.arrayContaining(["nodes", "startTime", "endTime", "samples", "timeDeltas"]),
  );
  await rm(join(dir, "cpu.profile"));
  await profiles.endCpu();
  await profiles.close();
  await expect(json("cpu.profile")).rejects.toThrow(/ENOENT/);
});

it("writes memory profiles into the file that is named, again and again, always a whole one", async () => {
  const memory = { path: join(dir, "mem"), intervalMs: 5 };
  const profiles = await Profiles.start({ memory, baseDir: "/", log: silentLogger });
  const written = async () => await stat(memory.path, { bigint: true }).then(({ ino, mtimeNs }) => `${ino} ${mtimeNs}`);
  await expect.poll(() => written().catch(() => undefined)).toBeDefined();
  const first = await written();
  await expect.poll(written).not.toBe(first);
  for (let i = 0; i < 20; i++) expect(Object.keys(await json("mem"))).toEqual(["head", "samples"]);
  await profiles.close();
  expect(Object.keys(await json("mem"))).toEqual(["head", "samples"]);
  expect(await readdir(dir)).toEqual(["mem"]);
});

it("only logs when a file cannot be written", async () => {
  const error = vi.fn();
  const path = join(dir, "none", "cpu");
  const profiles = await Profiles.start({ cpu: { path }, baseDir: dir, log: { ...silentLogger, error } });
  await profiles.close();
  expect(error.mock.calls[0]?.[0]).toMatchObject({
    path,
    reason: expect.stringContaining("ENOENT"),
  });
});
