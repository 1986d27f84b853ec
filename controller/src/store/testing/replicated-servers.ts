import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chmod, chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { silentLogger } from "@sallyport/wire";
import { freePorts } from "@sallyport/wire/testing/free-ports";
import pg from "pg";
import { openStore } from "../database.ts";
import { findPostgresBinaries } from "../postgres/postgres-binaries.ts";
import { type Guard, guarded, type PostgresUser, postgresUser, readPostmaster } from "../postgres/postgres-process.ts";

const HOST = "127.0.0.1";
const USER = "owner";
const DATABASE = "sallyport";
const SETTINGS = {
  listen_addresses: HOST,
  unix_socket_directories: "",
  shared_buffers: "32MB",
  max_connections: "100",
  fsync: "off",
  jit: "off",
  wal_retrieve_retry_interval: "100ms",
};

/** What runs PostgreSQL's programs. */
interface Runner {
  readonly programs: string;
  readonly user: PostgresUser | undefined;
}

/**
 * For tests: two PostgreSQL servers over TCP, of which the second follows the first by streaming replication, as a user might bring them. Replication is
 * asynchronous until {@link ReplicatedServers.makeSynchronous}.
 */
export class ReplicatedServers {
  readonly first: ReplicatedServer;
  readonly second: ReplicatedServer;
  readonly #folder: string;
  readonly #password: string;

  private constructor(folder: string, password: string, servers: readonly [ReplicatedServer, ReplicatedServer]) {
    this.#folder = folder;
    this.#password = password;
    [this.first, this.second] = servers;
  }

  /** @param hasSchema whether the database has the controller's tables, and nothing in them */
  static async start({ hasSchema = false } = {}): Promise<ReplicatedServers> {
    const user = await postgresUser();
    const runner = { programs: await findPostgresBinaries(undefined, user), user };
    const folder = await mkdtemp(join(tmpdir(), "sallyport-replicated-"));
    await chmod(folder, 0o755);
    const [password, superuserPassword] = [1, 2].map(() => randomBytes(12).toString("base64url")) as [string, string];
    const passwordFile = join(folder, "password");
    await writeFile(passwordFile, superuserPassword, { mode: 0o600 });
    if (user) for (const path of [folder, passwordFile]) await chown(path, user.uid, user.gid);
    const [firstPort = 0, secondPort = 0] = await freePorts(2);
    const [first, second] = [firstPort, secondPort].map(
      (port) => new ReplicatedServer(join(folder, `db-${port}`), port, superuserPassword, runner),
    ) as [ReplicatedServer, ReplicatedServer];
    const servers = new ReplicatedServers(folder, password, [first, second]);
    try {
      await run(runner, folder, "initdb", [
        ...["-D", first.data, "-U", "postgres", "-E", "UTF8", "--locale=C", "-A", "scram-sha-256"],
        `--pwfile=${passwordFile}`,
      ]);
      await first.start();
      await first.query(`CREATE ROLE ${USER} LOGIN CREATEDB PASSWORD '${password}'`);
      await first.query(`CREATE DATABASE ${DATABASE} OWNER ${USER}`);
      if (hasSchema) await (await openStore({ url: servers.url(first), hold: false, log: silentLogger })).close();
      await first.stop();
      await copy(first.data, servers.#pristine);
      await servers.#replicate();
      return servers;
    } catch (error) {
      await servers.stop();
      throw error;
    }
  }

  /** As they were at the start: the first one is the primary, and nothing was written since. */
  async reset(): Promise<void> {
    for (const server of [this.second, this.first]) await server.stop();
    await this.#replicate();
  }

  get #pristine(): string {
    return join(this.#folder, "pristine");
  }

  async #replicate(): Promise<void> {
    for (const { data } of [this.first, this.second]) {
      await rm(data, { recursive: true, force: true });
      await copy(this.#pristine, data);
    }
    await this.second.follow(this.first);
    await this.first.start();
    await this.second.start();
    await this.settled();
  }

  /** The URL of both; `order` chooses which comes first. */
  url(...order: readonly ReplicatedServer[]): string {
    const servers = order.length > 0 ? order : [this.first, this.second];
    const hosts = servers.map(({ port }) => `${HOST}:${port}`).join(",");
    return `postgres://${USER}:${this.#password}@${hosts}/${DATABASE}`;
  }

  /** To the database on one server, as its owner. */
  connectionTo({ port }: ReplicatedServer): pg.ClientConfig {
    return { host: HOST, port, user: USER, password: this.#password, database: DATABASE };
  }

  /** Resolves when the second server has replayed all that the first one has written. */
  async settled(): Promise<void> {
    for (;;) {
      const rows = await this.first.query(
        "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming' AND replay_lsn >= pg_current_wal_lsn()",
      );
      if (rows.length > 0) return;
      await delay(20);
    }
  }

  /** From now on the first server acknowledges nothing that the second one has not. */
  async makeSynchronous(): Promise<void> {
    await this.first.query("ALTER SYSTEM SET synchronous_standby_names = '*'");
    await this.first.query("SELECT pg_reload_conf()");
    while ((await this.first.query("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'")).length === 0) {
      await delay(20);
    }
  }

  /** The second server gets nothing more from the first, as if the network between them were gone. */
  async part(): Promise<void> {
    await this.second.query("ALTER SYSTEM SET primary_conninfo = ''");
    await this.second.query("SELECT pg_reload_conf()");
    while ((await this.first.query("SELECT 1 FROM pg_stat_replication")).length > 0) await delay(20);
  }

  async stop(): Promise<void> {
    for (const server of [this.second, this.first]) await server.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** One of the two. */
export class ReplicatedServer {
  readonly data: string;
  readonly port: number;
  readonly #password: string;
  readonly #runner: Runner;
  #child: ChildProcess | undefined;
  #guard: Guard | undefined;
  #frozen: number[] = [];

  constructor(data: string, port: number, password: string, runner: Runner) {
    this.data = data;
    this.port = port;
    this.#password = password;
    this.#runner = runner;
  }

  /** Makes the data folder, a copy of the other server's, one of a standby. */
  async follow({ port }: ReplicatedServer): Promise<void> {
    const { user } = this.#runner;
    const signal = join(this.data, "standby.signal");
    const settings = join(this.data, "postgresql.auto.conf");
    await writeFile(signal, "");
    const source = `host=${HOST} port=${port} user=postgres password=${this.#password}`;
    await writeFile(settings, `primary_conninfo = '${source}'\n`);
    if (user) for (const path of [signal, settings]) await chown(path, user.uid, user.gid);
  }

  /** Starts it, also after it was killed: a former primary is a primary again. */
  async start(): Promise<void> {
    const { programs } = this.#runner;
    const settings = Object.entries({ ...SETTINGS, port: String(this.port) });
    const args = settings.flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    this.#guard = guarded(join(programs, "postgres"), ["-D", this.data, ...args]);
    const child = spawn(this.#guard.command, this.#guard.args, {
      ...optionsOf(this.#runner, this.data),
      detached: true,
      stdio: ["pipe", "ignore", "pipe"],
    });
    this.#child = child;
    const said: string[] = [];
    await new Promise<void>((resolve, reject) => {
      createInterface({ input: child.stderr }).on("line", (line) => {
        if (said.length < 50) said.push(line);
        if (line.includes("ready to accept")) resolve();
      });
      child.once("close", () => reject(new Error(`PostgreSQL does not start: ${said.join(" ")}`)));
    });
  }

  /** Ends it as a crash of its machine would: nothing is said to anyone. */
  async kill(): Promise<void> {
    const { pid = 0 } = (await readPostmaster(this.data)) ?? {};
    const ended = this.#child && once(this.#child, "close");
    process.kill(pid, "SIGKILL");
    await ended;
    this.#child = undefined;
  }

  /** Stops all of its processes where they are: connections stay, and nothing answers. Call `thaw` later. */
  async freeze(): Promise<void> {
    const { pid = 0 } = (await readPostmaster(this.data)) ?? {};
    process.kill(pid, "SIGSTOP");
    const { stdout } = await promisify(execFile)("ps", ["-o", "pid=", "--ppid", String(pid)]);
    this.#frozen = [pid, ...stdout.trim().split(/\s+/).map(Number)];
    for (const each of this.#frozen) process.kill(each, "SIGSTOP");
  }

  thaw(): void {
    // The postmaster last: until then it removes no process that ends as soon as it goes on.
    for (const pid of this.#frozen.splice(0).toReversed()) process.kill(pid, "SIGCONT");
  }

  async promote(): Promise<void> {
    await this.query("SELECT pg_promote()");
  }

  async stop(): Promise<void> {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "close");
    this.#guard?.stop(child);
    await ended;
    this.#child = undefined;
  }

  /** As superuser. */
  async query<Row extends pg.QueryResultRow>(text: string, database = "postgres"): Promise<Row[]> {
    const client = new pg.Client({ host: HOST, port: this.port, user: "postgres", password: this.#password, database });
    client.on("error", () => undefined);
    await client.connect();
    try {
      return (await client.query<Row>(text)).rows;
    } finally {
      await client.end();
    }
  }
}

/** With owners and modes. */
async function copy(from: string, to: string): Promise<void> {
  await promisify(execFile)("cp", ["-a", from, to]);
}

async function run(runner: Runner, folder: string, program: string, args: readonly string[]): Promise<void> {
  await promisify(execFile)(join(runner.programs, program), args, optionsOf(runner, folder));
}

function optionsOf({ user }: Runner, cwd: string) {
  const env = { PATH: process.env.PATH ?? "", LC_ALL: "C", TZ: "UTC" };
  return { ...(user && { uid: user.uid, gid: user.gid }), cwd, env };
}
