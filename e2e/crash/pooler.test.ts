import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import { freePort } from "@sallyport/wire/testing/free-ports";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { openStore } from "../../controller/src/store/database.ts";
import { DatabaseServers } from "../../controller/src/store/postgres/database-servers.ts";
import { EmbeddedPostgres } from "../../controller/src/store/postgres/embedded.ts";
import { postgresUser } from "../../controller/src/store/postgres/postgres-process.ts";
import { withClient } from "../../controller/src/store/postgres/store-client.ts";
import { eventually } from "../network/eventually.ts";
import { accepts } from "../network/program.ts";
import { makeScratch, removeScratch } from "../network/scratch.ts";
import { toolOf } from "../release/tool-of.ts";

const program = toolOf("pgbouncer");

describe.skipIf(program === undefined)("PgBouncer in front of PostgreSQL", { timeout: 120_000 }, () => {
  const folder = makeScratch("pooler");
  let server: EmbeddedPostgres;
  let pooler: ChildProcess | undefined;
  beforeAll(async () => {
    chmodSync(folder, 0o711);
    server = await EmbeddedPostgres.start({ dir: join(folder, "db"), log: silentLogger });
  });
  afterEach(async () => {
    if (pooler === undefined) return;
    const ended = once(pooler, "exit");
    pooler.kill("SIGKILL");
    await ended;
    pooler = undefined;
  });
  afterAll(async () => {
    await server?.stop();
    removeScratch(folder);
  });

  /** Starts it; resolves with the URL of the database behind it. */
  async function start(mode: string, ...more: string[]): Promise<string> {
    const port = await freePort();
    const file = join(folder, `${mode}.ini`);
    const { host, user, database } = server.connection;
    const runner = await postgresUser();
    const lines = [
      "[databases]",
      `${database} = host=${host} port=5432 user=${user}`,
      "[pgbouncer]",
      "listen_addr = 127.0.0.1",
      `listen_port = ${port}`,
      "unix_socket_dir =",
      "auth_type = any",
      `pool_mode = ${mode}`,
      // As root, it has to become another user.
      ...(runner ? [`user = ${runner.name}`] : []),
      ...more,
    ];
    writeFileSync(file, `${lines.join("\n")}\n`);
    if (runner) chownSync(file, runner.uid, runner.gid);
    pooler = spawn(program ?? "", [file], { stdio: "ignore" });
    await eventually("PgBouncer", () => accepts(port));
    return `postgres://${user}@127.0.0.1:${port}/${database}`;
  }

  it.each([
    ["transaction", []],
    ["transaction", ["server_reset_query_always = 1"]],
    ["transaction", ["server_round_robin = 1"]],
    ["statement", []],
  ])("in %s mode (%s): it is refused, and the error says what to do", async (mode, more) => {
    const url = await start(mode, ...more);
    // Other clients are there, and leave sessions behind.
    await Promise.all(
      [1, 2, 3].map(() =>
        withClient(new DatabaseServers(url).connection, (client) => client.query("SELECT pg_sleep(0.1)")),
      ),
    );
    const opened = openStore({ url, log: silentLogger });
    await expect(opened).rejects.toThrow(
      /^cannot use the database sallyport at 127\.0\.0\.1:\d+: .*pool_mode = session/,
    );
  });

  it("in session mode it works: one controller at a time, and the server's own process numbers", async () => {
    const url = await start("session");
    const store = await openStore({ url, log: silentLogger });
    try {
      await store.db.insertInto("setting").values({ name: "pooled", value: "{}" }).execute();
      await expect(openStore({ url, log: silentLogger })).rejects.toThrow(/the database is in use by/);
      await withClient(new DatabaseServers(url).connection, async (client) => {
        const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
        expect((client as unknown as { serverProcess: number }).serverProcess).toBe(rows[0]?.pid);
      });
    } finally {
      await store.close();
    }
  });
});
