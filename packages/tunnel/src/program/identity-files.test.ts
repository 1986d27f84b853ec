import { mkdtemp, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { enrollCommand, isEnrolled } from "./identity-files.ts";

const IDENTITY = { ztAPI: "https://ctrl.example:1280", id: { key: "secret" } };
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "enroll-"));
  await writeFile(join(folder, "me.jwt"), "token\n");
});

afterEach(() => rm(folder, { recursive: true }));

test("the identity file is its owner's only, and holds nothing of the room that was kept for it", async () => {
  const output = join(folder, "me.json");
  await enrollCommand(join(folder, "me.jwt"), output, async () => IDENTITY);
  expect(await readFile(output, "utf8")).toBe(`${JSON.stringify(IDENTITY, null, 2)}\n`);
  expect((await stat(output)).mode & 0o777).toBe(0o600);
});

test("the key is written into the file that was made, not into another one that took its name meanwhile", async () => {
  const output = join(folder, "me.json");
  await enrollCommand(join(folder, "me.jwt"), output, async () => {
    await rename(output, join(folder, "away.json"));
    await writeFile(output, "readable by all");
    return IDENTITY;
  });
  expect(await readFile(output, "utf8")).toBe("readable by all");
  expect(JSON.parse(await readFile(join(folder, "away.json"), "utf8"))).toEqual(IDENTITY);
});

test("an identity that is there is known again, also after an enrollment that was killed", async () => {
  const output = join(folder, "me.json");
  expect(await isEnrolled(output)).toBe(false);
  await enrollCommand(join(folder, "me.jwt"), output, async () => {
    const left = await readFile(output);
    await writeFile(join(folder, "killed.json"), left);
    return IDENTITY;
  });
  expect(await isEnrolled(output)).toBe(true);
  expect(JSON.parse(await readFile(output, "utf8"))).toEqual(IDENTITY);
  expect(await isEnrolled(join(folder, "killed.json"))).toBe(false);
  await enrollCommand(join(folder, "me.jwt"), join(folder, "killed.json"), async () => IDENTITY);
  await expect(isEnrolled(folder)).rejects.toThrow("cannot be read");
});
