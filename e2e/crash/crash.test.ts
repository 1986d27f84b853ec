import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type ApiClient, ApiError } from "@sallyport/api";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { eventually } from "../network/eventually.ts";
import { administrator } from "../network/network.ts";
import { accepts, Program } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";

const MAIN = join(import.meta.dirname, "..", "..", "controller", "src", "main.ts");
const PASSWORD = "correct-horse-battery";
const KILLS = 20;
/** Writes that are acknowledged before each kill, and writers at a time. */
const BETWEEN_KILLS = 25;
const WRITERS = 4;

const scratch = makeScratch("crash");
const dir = join(scratch, "ctrl");
const file = join(dir, "controller.yml");
let port = 0;
let controller: Program;

beforeAll(async () => {
  [port = 0] = await freePorts(1);
  const init = start("init", "init", "--dir", dir, "--host", "localhost", "--api-port", String(port));
  expect(await init.exited, init.tail.join("\n")).toBe(0);
  await run();
});
afterAll(async () => {
  await controller?.stop(30_000);
  removeScratch(scratch);
});

function start(name: string, ...args: string[]): Program {
  return new Program({
    name,
    command: process.execPath,
    args: [MAIN, ...args],
    env: { SALLYPORT_ADMIN_USERNAME: "admin", SALLYPORT_ADMIN_PASSWORD: PASSWORD },
    logFile: join(scratch, `${name}.log`),
  });
}

async function run(): Promise<void> {
  controller = start("controller", "run", file);
  await controller.ready("its port", () => accepts(port));
}

function dataFolder(): string {
  const named = /^ {2}dir: (.*)$/m.exec(readFileSync(file, "utf8"))?.[1] ?? "database";
  return named.startsWith("/") ? named : join(dir, named);
}

/** Process number and socket folder of the database server. */
function postmaster(): { pid: number; socket: string } {
  const lines = readFileSync(join(dataFolder(), "postmaster.pid"), "utf8").split("\n");
  return { pid: Number(lines[0]), socket: lines[4] ?? "" };
}

/** Asks the database itself. */
async function query<T extends pg.QueryResultRow>(text: string): Promise<T[]> {
  const client = new pg.Client({ host: postmaster().socket, user: "sallyport", database: "sallyport" });
  await client.connect();
  try {
    return (await client.query<T>(text)).rows;
  } finally {
    await client.end();
  }
}

it("keeps what a power cut would need: fsync, full_page_writes and synchronous_commit are on", async () => {
  const rows = await query<{ name: string; setting: string }>(
    "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'data_checksums') ORDER BY name",
  );
  expect(rows).toEqual(
    ["data_checksums", "fsync", "full_page_writes", "synchronous_commit"].map((name) => ({ name, setting: "on" })),
  );
  // As the controller's own connections have it.
  const sources = await query<{ n: number }>(
    "SELECT count(*)::int AS n FROM pg_db_role_setting s, unnest(s.setconfig) c WHERE c ~ '^(fsync|full_page_writes|synchronous_commit)='",
  );
  expect(sources).toEqual([{ n: 0 }]);
});

it(`loses no acknowledged write when controller and database are killed in turns, ${KILLS} times`, async () => {
  const acknowledged = new Map<string, string>();
  const deleted = new Set<string>();
  let serial = 0;
  let isOver = false;
  let client: ApiClient<"management"> | undefined;

  const writer = async (): Promise<void> => {
    while (!isOver) {
      const name = `s${serial++}`;
      try {
        client ??= await administrator(port, PASSWORD);
        const { data } = await client.createService({ body: { name, encryptionRequired: true } });
        if (serial % 7 !== 0) acknowledged.set(data.id, name);
        else {
          // Between the two it may be there or not.
          await client.deleteService({ params: { id: data.id } });
          deleted.add(data.id);
        }
      } catch (error) {
        // Killed, starting, or without its database: what was under way is not acknowledged, and may be there or not.
        if (error instanceof ApiError && error.status < 500 && error.status !== 401) throw error;
        client?.close();
        client = undefined;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  };
  const writers = Array.from({ length: WRITERS }, writer);
  try {
    for (let kill = 0; kill < KILLS; kill++) {
      const before = acknowledged.size;
      await eventually("writes", () => acknowledged.size >= before + BETWEEN_KILLS, 60_000);
      if (kill % 2 === 0) {
        controller.signal("SIGKILL");
        await controller.exited;
        await run();
      } else {
        const { pid } = postmaster();
        process.kill(pid, "SIGKILL");
        await eventually("another database server", () => postmaster().pid !== pid, 60_000);
      }
    }
  } finally {
    isOver = true;
  }
  await Promise.all(writers);

  const one = await eventually("an answer", () => administrator(port, PASSWORD), 60_000);
  const present = await eventually("the database", () =>
    query<{ id: string; name: string }>("SELECT id, name FROM service"),
  );
  const names = new Map(present.map(({ id, name }) => [id, name]));
  const lost = [...acknowledged].filter(([id, name]) => names.get(id) !== name);
  expect(lost).toEqual([]);
  expect([...deleted].filter((id) => names.has(id))).toEqual([]);
  expect(acknowledged.size).toBeGreaterThan(KILLS * BETWEEN_KILLS * 0.8);
  console.log(
    `${acknowledged.size} acknowledged writes, ${deleted.size} acknowledged deletes, ${KILLS} kills, none lost`,
  );

  // The data is not only there, it fits together.
  await one.checkDataIntegrity({});
  const report = await eventually("the integrity check", async () => {
    const { data } = await one.dataIntegrityResults({});
    return data.inProgress ? undefined : data;
  });
  expect(report).toMatchObject({ error: null, results: [] });
  one.close();
});
