import { mkdtemp, readFile, rm } from "node:fs/promises";
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

it("writes a CPU profile once, when it is ended, in the form of Chrome DevTools", async () => {
  const profiles = await Profiles.start({ cpu: { path: "cpu" }, baseDir: dir, log: silentLogger });
  for (let i = 0, until = performance.now() + 20; performance.now() < until; i++) JSON.stringify({ i });
  await profiles.endCpu();
  const profile = await json("cpu.cpuprofile");
  expect(Object.keys(profile)).toEqual(
    expect.arrayContaining(["nodes", "startTime", "endTime", "samples", "timeDeltas"]),
  );
  await rm(join(dir, "cpu.cpuprofile"));
  await profiles.endCpu();
  await profiles.close();
  await expect(json("cpu.cpuprofile")).rejects.toThrow(/ENOENT/);
});

it("writes memory profiles into two files in turn", async () => {
  const memory = { path: join(dir, "mem.heapprofile"), intervalMs: 5 };
  const profiles = await Profiles.start({ memory, baseDir: "/", log: silentLogger });
  await expect
    .poll(async () => Object.keys(await json("mem-0.heapprofile").catch(() => ({}))))
    .toEqual(["head", "samples"]);
  await expect
    .poll(async () => Object.keys(await json("mem-1.heapprofile").catch(() => ({}))))
    .toEqual(["head", "samples"]);
  await profiles.close();
  expect(Object.keys(await json("mem-0.heapprofile"))).toEqual(["head", "samples"]);
});

it("only logs when a file cannot be written", async () => {
  const error = vi.fn();
  const path = join(dir, "none", "cpu");
  const profiles = await Profiles.start({ cpu: { path }, baseDir: dir, log: { ...silentLogger, error } });
  await profiles.close();
  expect(error.mock.calls[0]?.[0]).toMatchObject({
    path: `${path}.cpuprofile`,
    reason: expect.stringContaining("ENOENT"),
  });
});
