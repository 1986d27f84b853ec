import { execFile } from "node:child_process";
import { chmod, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newSecretKey } from "../store/secrets.ts";

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
  expect(await run("backup", "a/controller.yml", "--to", "none/saved")).toMatchObject({
    status: 1,
    text: expect.stringContaining("does not exist: create it first"),
  });

  await mkdir(join(folder, "b"), { mode: 0o711 });
  await copyFile(join(folder, "a", "controller.yml"), join(folder, "b", "controller.yml"));
  const restore = () => run("restore", "b/controller.yml", "--from", "saved");
  const refused = {
    status: 1,
    text: expect.stringContaining("a restore needs the secret key of the backup's network"),
  };
  expect(await restore()).toMatchObject(refused);
  await writeFile(join(folder, "b", "secret.key"), newSecretKey(), { mode: 0o600 });
  expect(await restore()).toMatchObject(refused);
  expect((await readdir(join(folder, "b"))).toSorted()).toEqual(["controller.yml", "secret.key"]);

  await copyFile(join(folder, "a", "secret.key"), join(folder, "b", "secret.key"));
  // A package or a hurried administrator has run init before.
  expect((await run("init", "--config", "b/controller.yml")).status).toBe(0);
  expect(await restore()).toMatchObject({ status: 0, text: expect.stringContaining("decrypts the backup's secrets") });
  const roots = (await run("pki", "status", "a/controller.yml")).text;
  expect(roots).toContain("root");
  expect((await run("pki", "status", "b/controller.yml")).text).toBe(roots);
  expect(await run("restore", "b/controller.yml")).toMatchObject({
    status: 2,
    text: expect.stringContaining("--from"),
  });
  if (process.platform === "linux") {
    const never = await run("init", "--dir", "/proc/sallyport");
    expect(never).toMatchObject({ status: 1, text: expect.stringContaining("cannot be made") });
  }
}, 120_000);
