import { chmod, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import { openStore } from "../database.ts";
import { EmbeddedPostgres, type PostgresConnection } from "../postgres/embedded.ts";
import { isAlive, readPostmaster } from "../postgres/postgres-process.ts";
import { OldestServer } from "./oldest-server.ts";

/** Environment variable with the path of the socket on which the test run's main process answers with its database server. */
export const TEST_SERVER_VARIABLE = "SALLYPORT_TEST_SERVER";

/** Environment variable: `oldest` runs the tests on a server of the user's kind, of the oldest supported version. */
const TEST_POSTGRES_VARIABLE = "SALLYPORT_TEST_POSTGRES";

/** The database that every test's own one is cloned from. */
export const TEMPLATE = "sallyport";

const PREFIX = "sallyport-test-";
const OLD_MS = 600_000;

/** One embedded PostgreSQL for a whole test run, without durability, with a migrated template. */
export class TestServer {
  readonly #dir: string;
  readonly #server: EmbeddedPostgres;

  private constructor(dir: string, server: EmbeddedPostgres) {
    this.#dir = dir;
    this.#server = server;
  }

  static async start(): Promise<TestServer> {
    await removeOrphans();
    const dir = await mkdtemp(join(tmpdir(), PREFIX));
    await chmod(dir, 0o755);
    const server = await EmbeddedPostgres.start({
      dir: join(dir, "db"),
      settings: {
        fsync: "off",
        synchronous_commit: "off",
        full_page_writes: "off",
        max_connections: "200",
        autovacuum: "off",
      },
      log: silentLogger,
    });
    const test = new TestServer(dir, server);
    const store = await openStore({ connection: server.connection, hold: false, log: silentLogger });
    await store.close();
    return test;
  }

  get connection(): PostgresConnection {
    return this.#server.connection;
  }

  async stop(): Promise<void> {
    await this.#server.stop();
    await rm(this.#dir, { recursive: true, force: true });
  }
}

/**
 * vitest's global set-up: the main process of the run owns the server, starts it when the first worker asks (over a Unix socket whose path is in
 * the environment), and stops it at the end, whatever became of the workers.
 *
 * @returns the tear-down.
 */
export async function setup(): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), "sallyport-run-"));
  const path = join(dir, "ask");
  let started: Promise<TestServer | OldestServer> | undefined;
  const listener: Server = createServer((socket) => {
    socket.on("error", () => undefined);
    started ??= process.env[TEST_POSTGRES_VARIABLE] === "oldest" ? OldestServer.start() : TestServer.start();
    started.then(
      (server) => socket.end(JSON.stringify({ connection: server.connection })),
      (error) => socket.end(JSON.stringify({ error: String(error?.stack ?? error) })),
    );
  });
  await new Promise<void>((listening) => listener.listen(path, listening));
  process.env[TEST_SERVER_VARIABLE] = path;
  return async () => {
    listener.close();
    await (await started?.catch(() => undefined))?.stop();
    await rm(dir, { recursive: true, force: true });
  };
}

// A test run that was killed leaves its folder: its server ends by itself, and the next run removes what it left.
async function removeOrphans(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    if (!name.startsWith(PREFIX)) continue;
    const dir = join(tmpdir(), name);
    const found = await stat(dir).catch(() => undefined);
    if (!found || found.uid !== process.getuid?.() || Date.now() - found.mtimeMs < OLD_MS) continue;
    const data = join(dir, "db");
    const server = await readPostmaster(data).catch(() => undefined);
    if (!server || !(await isAlive(server, data))) await rm(dir, { recursive: true, force: true });
  }
}
