import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { silentLogger } from "@sallyport/wire";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { openStore } from "../database.ts";
import { EmbeddedPostgres } from "./embedded.ts";
import { postgresUser, processExists, readPostmaster } from "./postgres-process.ts";

async function startHolder(dir: string): Promise<{ child: ChildProcess; said: string }> {
  const program = new URL("../testing/holder-process.ts", import.meta.url).pathname;
  const where = JSON.stringify({ embedded: { dir } });
  const child = spawn(process.execPath, [program, where], { stdio: ["ignore", "pipe", "inherit"] });
  const [said] = (await once(createInterface({ input: child.stdout! }), "line")) as [string];
  return { child, said };
}

async function gone(pid: number): Promise<void> {
  while (processExists(pid)) await delay(20);
}

describe("the embedded PostgreSQL", { timeout: 120_000 }, () => {
  let parent: string;
  let stopped: string;
  /** A data folder that was used before, without the seconds that making one takes. */
  const usedFolder = async (dir = join(parent, "db")): Promise<string> => {
    // Owner and mode too: the server refuses a folder of another user.
    await promisify(execFile)("cp", ["-Rp", join(stopped, "db"), dir]);
    return dir;
  };
  beforeAll(async () => {
    stopped = await mkdtemp(join(tmpdir(), "sallyport-embedded-"));
    await chmod(stopped, 0o755);
    await (await openStore({ embedded: { dir: join(stopped, "db") }, log: silentLogger })).close();
  });
  afterAll(() => rm(stopped, { recursive: true, force: true }));
  beforeEach(async () => {
    parent = await mkdtemp(join(tmpdir(), "sallyport-embedded-"));
    await chmod(parent, 0o755);
  });
  afterEach(() => rm(parent, { recursive: true, force: true }));

  it("listens on a closed Unix socket only, runs as another user than root, keeps its data, and stops cleanly", async () => {
    const dir = join(parent, "db");
    const server = await EmbeddedPostgres.start({ dir, log: silentLogger });
    const user = await postgresUser();
    expect((await stat(dir)).mode & 0o777).toBe(0o700);
    expect((await stat(dir)).uid).toBe(user?.uid ?? process.getuid?.());
    const client = new pg.Client(server.connection);
    await client.connect();
    const { rows } = await client.query(
      "SELECT current_setting('listen_addresses') AS tcp, current_setting('lc_collate', true) AS c",
    );
    expect(rows[0].tcp).toBe("");
    await client.query("CREATE TABLE kept (a int); INSERT INTO kept VALUES (1)");
    await client.end();
    const pid = (await server.pid())!;
    await server.stop();
    expect(processExists(pid)).toBe(false);
    expect(await readPostmaster(dir)).toBeUndefined();

    const again = await EmbeddedPostgres.start({ dir, log: silentLogger });
    const reader = new pg.Client(again.connection);
    await reader.connect();
    expect((await reader.query("SELECT a FROM kept")).rows).toEqual([{ a: 1 }]);
    await reader.end();
    await again.stop();
  });

  it.runIf(process.platform === "linux")(
    "needs no shell where it is alone in a container, and stops cleanly there, too",
    async () => {
      vi.stubEnv("SALLYPORT_CONTAINER", "1");
      const server = await EmbeddedPostgres.start({ dir: await usedFolder(), log: silentLogger });
      vi.unstubAllEnvs();
      const pid = (await server.pid())!;
      // Its parent is this process: nothing watches over it in between.
      expect(await readFile(`/proc/${pid}/status`, "utf8")).toContain(`PPid:\t${process.pid}\n`);
      await server.stop();
      expect(processExists(pid)).toBe(false);
    },
  );

  it("puts its socket into a short folder when the data folder's path is long", async () => {
    await mkdir(join(parent, "long".repeat(20)), { mode: 0o755 });
    const dir = await usedFolder(join(parent, "long".repeat(20), "db"));
    const server = await EmbeddedPostgres.start({ dir, log: silentLogger });
    expect(server.connection.host.length).toBeLessThan(60);
    const client = new pg.Client(server.connection);
    await client.connect();
    await client.end();
    await server.stop();
    await expect(stat(server.connection.host)).rejects.toThrow("ENOENT");
  });

  it("ends when the process that started it is killed, and everything committed is there for the next", async () => {
    const dir = await usedFolder();
    const { child, said } = await startHolder(dir);
    expect(said).toBe("open");
    const { pid } = (await readPostmaster(dir))!;
    child.kill("SIGKILL");
    await once(child, "exit");
    const store = await openStore({ embedded: { dir }, log: silentLogger });
    expect(processExists(pid)).toBe(false);
    await store.close();
  });

  it("is not taken from a living controller: the second process names the holder", async () => {
    const dir = await usedFolder();
    const first = await startHolder(dir);
    const second = await startHolder(dir);
    expect(second.said).toContain("DatabaseHeldError: the database is in use by sallyport-controller on ");
    const { pid } = (await readPostmaster(dir))!;
    expect(processExists(pid)).toBe(true);
    first.child.kill("SIGTERM");
    await once(first.child, "exit");
    expect(first.child.exitCode).toBe(0);
    await gone(pid);
  });

  it("is started again after a crash, while orphans of the old one end", async () => {
    const dir = await usedFolder();
    const store = await openStore({ embedded: { dir }, log: silentLogger });
    await store.db.insertInto("setting").values({ name: "kept", value: "1" }).execute();
    const { pid } = (await readPostmaster(dir))!;
    process.kill(pid, "SIGKILL");
    await gone(pid);
    for (;;) {
      try {
        const rows = await store.db.selectFrom("setting").select("name").where("name", "=", "kept").execute();
        expect(rows).toHaveLength(1);
        break;
      } catch {
        await delay(50);
      }
    }
    expect((await readPostmaster(dir))!.pid).not.toBe(pid);
    await store.close();
  });

  it("does not mistake another program's process number for its own", async () => {
    const dir = await usedFolder();
    await writeFile(join(dir, "postmaster.pid"), `${process.pid}\n${dir}\n1\n5432\n${dir}\n\n`);
    const again = await EmbeddedPostgres.start({ dir, log: silentLogger });
    await again.stop();
  });

  it("refuses a folder that holds something else, and says so", async () => {
    const dir = join(parent, "other");
    await mkdir(dir);
    await writeFile(join(dir, "letter.txt"), "dear");
    await expect(EmbeddedPostgres.start({ dir, log: silentLogger })).rejects.toThrow(dir);
  });
});
