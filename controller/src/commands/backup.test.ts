import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";

const MAIN = join(import.meta.dirname, "..", "main.ts");
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sallyport-backup-command-"));
  await chmod(folder, 0o711);
});
afterAll(() => rm(folder, { recursive: true, force: true }));

function run(...args: string[]): Promise<{ status: number; text: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, ...args], { cwd: folder }, (error, out, err) =>
      resolve({ status: error === null ? 0 : Number(error.code), text: out + err }),
    );
  });
}

it("backup and restore move a network to another folder; init ends where no folder can be made", async () => {
  expect((await run("init", "--dir", "a", "--api-port", "18999")).status).toBe(0);
  const written = await run("backup", "a/controller.yml", "--to", "saved");
  expect(written).toMatchObject({ status: 0, text: expect.stringContaining("is NOT in it") });
  expect(await run("backup", "a/controller.yml", "--to", "saved")).toMatchObject({
    status: 1,
    text: expect.stringContaining("never replaces a file"),
  });

  await mkdir(join(folder, "b"), { mode: 0o711 });
  for (const name of ["controller.yml", "secret.key"]) await copyFile(join(folder, "a", name), join(folder, "b", name));
  expect(await run("restore", "b/controller.yml", "--from", "saved")).toMatchObject({
    status: 0,
    text: expect.stringContaining("the secret key of this configuration opens what it holds"),
  });
  expect(await run("restore", "b/controller.yml", "--from", "saved")).toMatchObject({
    status: 1,
    text: expect.stringContaining("the database is not empty"),
  });
  expect(await run("restore", "b/controller.yml")).toMatchObject({
    status: 2,
    text: expect.stringContaining("--from"),
  });
  if (process.platform === "linux") {
    const never = await run("init", "--dir", "/proc/sallyport");
    expect(never).toMatchObject({ status: 1, text: expect.stringContaining("cannot be made") });
  }
}, 120_000);
