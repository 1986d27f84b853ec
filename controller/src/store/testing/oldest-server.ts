import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmod, chown, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { silentLogger } from "@sallyport/wire";
import { freePort } from "@sallyport/wire/testing/free-ports";
import pg from "pg";
import { openStore } from "../database.ts";
import type { PostgresConnection } from "../postgres/embedded.ts";
import { copyPrograms, isReachable, restoreLinks } from "../postgres/postgres-binaries.ts";
import { guarded, type PostgresUser, postgresUser } from "../postgres/postgres-process.ts";

const USER = "owner";
const DATABASE = "sallyport";

/**
 * For tests: a server as a user might bring one, and as different from the embedded one as it may be: the oldest version that is supported, another
 * collation (ICU, en-US), over TCP, with a password, and a user who owns its databases and is nothing else.
 */
export class OldestServer {
  readonly connection: PostgresConnection;
  readonly #stop: () => Promise<void>;

  private constructor(connection: PostgresConnection, stop: () => Promise<void>) {
    this.connection = connection;
    this.#stop = stop;
  }

  /** Starts it with a migrated template database. @throws Error where its npm package is not installed */
  static async start(): Promise<OldestServer> {
    const user = await postgresUser();
    const programs = await programsFor(user);
    const folder = await mkdtemp(join(tmpdir(), "sallyport-oldest-"));
    await chmod(folder, 0o755);
    const data = join(folder, "db");
    const passwordFile = join(folder, "password");
    const [superuserPassword, password] = [1, 2].map(() => randomBytes(12).toString("base64url")) as [string, string];
    await writeFile(passwordFile, superuserPassword, { mode: 0o600 });
    if (user) for (const path of [folder, passwordFile]) await chown(path, user.uid, user.gid);
    const options = {
      ...(user && { uid: user.uid, gid: user.gid }),
      cwd: folder,
      env: { PATH: process.env.PATH ?? "", LC_ALL: "C", TZ: "UTC" },
    };
    const init = spawn(
      join(programs, "initdb"),
      [
        "-D",
        data,
        "-U",
        "postgres",
        "-E",
        "UTF8",
        "--locale-provider=icu",
        "--icu-locale=en-US",
        "--locale=C",
        "-A",
        "scram-sha-256",
        `--pwfile=${passwordFile}`,
      ],
      { ...options, stdio: ["ignore", "ignore", "pipe"] },
    );
    const complaints: string[] = [];
    init.stderr.on("data", (chunk) => complaints.push(String(chunk)));
    const [status] = await once(init, "close");
    if (status !== 0) throw new Error(`initdb of the oldest PostgreSQL failed: ${complaints.join("")}`);
    const port = await freePort();
    const settings = {
      listen_addresses: "127.0.0.1",
      port: String(port),
      unix_socket_directories: "",
      max_connections: "200",
      shared_buffers: "64MB",
      fsync: "off",
      synchronous_commit: "off",
      full_page_writes: "off",
      autovacuum: "off",
      jit: "off",
    };
    const args = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const guard = guarded(join(programs, "postgres"), ["-D", data, ...args]);
    const server = spawn(guard.command, guard.args, {
      ...options,
      detached: true,
      stdio: ["pipe", "ignore", "pipe"],
    });
    const said: string[] = [];
    await new Promise<void>((resolve, reject) => {
      createInterface({ input: server.stderr }).on("line", (line) => {
        if (said.length < 50) said.push(line);
        if (line.includes("database system is ready to accept connections")) resolve();
      });
      server.once("close", () => reject(new Error(`the oldest PostgreSQL does not start: ${said.join(" ")}`)));
    });
    const stop = async () => {
      const ended = once(server, "close");
      guard.stop(server);
      await ended;
      await rm(folder, { recursive: true, force: true });
    };
    try {
      const place = { host: "127.0.0.1", port };
      await asSuperuser({ ...place, user: "postgres", password: superuserPassword, database: "postgres" }, [
        `CREATE ROLE ${USER} LOGIN CREATEDB PASSWORD '${password}'`,
        `CREATE DATABASE ${DATABASE} OWNER ${USER}`,
      ]);
      const administrator = { user: "postgres", password: superuserPassword };
      const connection: PostgresConnection = { ...place, user: USER, password, database: DATABASE, administrator };
      const store = await openStore({ url: urlOf(connection), hold: false, log: silentLogger });
      await store.close();
      return new OldestServer(connection, stop);
    } catch (error) {
      await stop();
      throw error;
    }
  }

  async stop(): Promise<void> {
    await this.#stop();
  }
}

/** A connection as a URL. */
export function urlOf({ host, port, user, password = "", database }: PostgresConnection): string {
  if (!host.startsWith("/")) return `postgres://${user}:${password}@${host}:${port}/${database}`;
  return `postgres://${user}:${password}@localhost/${database}?host=${encodeURIComponent(host)}`;
}

async function programsFor(user: PostgresUser | undefined): Promise<string> {
  const name = `postgresql-15-${process.platform}-${process.arch}`;
  let entry: string;
  try {
    entry = createRequire(import.meta.url).resolve(name);
  } catch (error) {
    throw new Error(`the npm package ${name}, with the oldest supported PostgreSQL, is not installed`, {
      cause: error,
    });
  }
  const native = join(dirname(dirname(entry)), "native");
  await readFile(join(native, "pg-symlinks.json"));
  await restoreLinks(native);
  const bin = join(native, "bin");
  if (!user || (await isReachable(join(bin, "postgres"), user))) return bin;
  return join(await copyPrograms(native), "bin");
}

async function asSuperuser(connection: PostgresConnection, statements: readonly string[]): Promise<void> {
  const client = new pg.Client(connection);
  await client.connect();
  try {
    for (const statement of statements) await client.query(statement);
  } finally {
    await client.end();
  }
}
