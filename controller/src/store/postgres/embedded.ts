import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmod, chown, lstat, mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { Backoff } from "@sallyport/async";
import { makeFolder } from "@sallyport/program/make-folder";
import type { Logger } from "@sallyport/wire";
import { findPostgresBinaries, isReachable } from "./postgres-binaries.ts";
import {
  forgetOtherProgram,
  type Guard,
  guarded,
  isAlive,
  type PostgresUser,
  postgresUser,
  readPostmaster,
} from "./postgres-process.ts";
import { ask, withClient } from "./store-client.ts";

/** The embedded PostgreSQL could not be made, started or kept running. */
export class EmbeddedPostgresError extends Error {
  override name = "EmbeddedPostgresError";
}

export interface EmbeddedOptions {
  /** Data folder; made on first use. As root it is given to the user that runs PostgreSQL. */
  dir: string;
  /** Folder with `initdb` and `postgres`; default: the npm package for this platform. */
  binaries?: string;
  /** Operating system user to run it when the controller is root; default `postgres`, else the user "nobody". */
  user?: string;
  /** Further settings of PostgreSQL, for example `{ shared_buffers: "256MB" }`. */
  settings?: Readonly<Record<string, string>>;
  /**
   * Asked when a server is already running on the data folder, because the controller that started it was killed, or still lives:
   * throws when the server is in use. Otherwise it is stopped and started again as our own.
   */
  onSurvivor?(connection: PostgresConnection): Promise<void>;
  log: Logger;
}

/** How to reach a database of the embedded server with `pg`. */
export interface PostgresConnection {
  host: string;
  port: number;
  user: string;
  database: string;
  /** Only for servers that ask for one, which the embedded one does not. */
  password?: string;
  /** In tests on a server of the user's kind: who may do what the owner of a database may not. */
  administrator?: { readonly user: string; readonly password: string };
}

const SUPERUSER = "sallyport";
const DATABASE = "sallyport";
const PORT = 5432;
// 107 bytes, less the name of the socket in the folder.
const MAX_SOCKET_FOLDER = 107 - "/.s.PGSQL.5432".length;
const START_LIMIT_MS = 120_000;
const STOP_LIMIT_MS = 15_000;
/** A new database is a copy of files: some disks are slow. */
const CREATE_LIMIT_MS = 60_000;
const RETRY_MS = 100;
const MAX_PAUSE_MS = 5_000;

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: "",
  shared_buffers: "32MB",
  max_connections: "60",
  jit: "off",
  log_line_prefix: "",
  // No values of rows and no statements in its log: both can hold secrets.
  log_error_verbosity: "terse",
  log_min_error_statement: "panic",
  timezone: "UTC",
};

/** What PostgreSQL calls fatal although only one connection ended, in the middle of something or by request, or came too early. */
const OF_ONE_SESSION =
  /^(connection to client lost|terminating connection|the database system is (starting up|not yet accepting|shutting down|in recovery))/;

/**
 * A PostgreSQL of our own: made on first use, started as a child process, reachable over a Unix socket only (no TCP port, no
 * password: the socket's folder is closed to others, and the server checks which user is calling), started again when it dies.
 */
export class EmbeddedPostgres {
  readonly connection: PostgresConnection;
  readonly #options: EmbeddedOptions;
  readonly #binaries: string;
  readonly #user: PostgresUser | undefined;
  readonly #socketDir: string;
  #child: ChildProcessWithoutNullStreams | undefined;
  #guard: Guard | undefined;
  #stopping = false;
  #restart: Promise<void> | undefined;

  private constructor(options: EmbeddedOptions, binaries: string, user: PostgresUser | undefined, socketDir: string) {
    this.#options = options;
    this.#binaries = binaries;
    this.#user = user;
    this.#socketDir = socketDir;
    this.connection = connectionTo(socketDir, DATABASE);
  }

  /** Makes the data folder if needed and starts the server. Resolves when it accepts connections and has the database `sallyport`. */
  static async start(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
    const dir = resolve(options.dir);
    const user = await postgresUser(options.user);
    const binaries = await findPostgresBinaries(options.binaries, user);
    await makeDataFolder(dir, user);
    const socketDir = Buffer.byteLength(dir) <= MAX_SOCKET_FOLDER ? dir : await makeSocketFolder(dir, user);
    const server = new EmbeddedPostgres({ ...options, dir }, binaries, user, socketDir);
    try {
      await server.#init();
      await server.#launch();
      await server.#createDatabase();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  /** Process number of the server, while it runs; for tests and diagnostics. */
  async pid(): Promise<number | undefined> {
    return (await readPostmaster(this.#options.dir))?.pid;
  }

  /** Stops the server: connections are ended, the data written. After 15 seconds it is stopped at once (the next start recovers). */
  async stop(): Promise<void> {
    this.#stopping = true;
    await this.#restart;
    const child = this.#child;
    if (child && child.exitCode === null && child.signalCode === null) {
      const ended = once(child, "exit");
      this.#guard?.stop(child);
      const inTime = await Promise.race([ended.then(() => true), delay(STOP_LIMIT_MS, false, { ref: false })]);
      if (!inTime) {
        const { dir, log } = this.#options;
        log.warn({ dir }, "the embedded PostgreSQL did not stop in time: stopping it at once");
        const pid = await this.pid();
        if (pid !== undefined) process.kill(pid, "SIGQUIT");
        await ended;
      }
    }
    if (this.#socketDir !== this.#options.dir) await rm(this.#socketDir, { recursive: true, force: true });
  }

  async #init(): Promise<void> {
    const { dir, log } = this.#options;
    const entries = await readdir(dir);
    if (entries.includes("PG_VERSION")) return;
    if (entries.length > 0) {
      throw new EmbeddedPostgresError(
        `the data folder ${dir} is neither empty nor one of PostgreSQL: give another folder`,
      );
    }
    const began = performance.now();
    const args = ["--pgdata", dir, "--username", SUPERUSER, "--encoding", "UTF8", "--locale", "C", "--data-checksums"];
    const child = this.#spawn(join(this.#binaries, "initdb"), [...args, "--auth", "peer", "--no-instructions"]);
    const output: string[] = [];
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => output.push(String(chunk)));
    const [code] = (await once(child, "close")) as [number | null];
    if (code !== 0) {
      throw new EmbeddedPostgresError(
        `initdb could not make the data folder ${dir} (status ${code}): ${output.join("").trim()}`,
      );
    }
    log.info({ dir, milliseconds: Math.round(performance.now() - began) }, "embedded PostgreSQL: data folder made");
  }

  /** Starts the server, however often a predecessor is still in the way, until it accepts connections. */
  async #launch(): Promise<void> {
    await this.#writeAccessRules();
    const deadline = performance.now() + START_LIMIT_MS;
    for (;;) {
      await this.#takeOver();
      const failure = await this.#startOnce();
      if (failure === undefined) return;
      const inTheWay = /shared memory block|lock file ".*" already exists|pre-existing/.test(failure);
      if (!inTheWay || performance.now() > deadline || this.#stopping) {
        throw new EmbeddedPostgresError(`the embedded PostgreSQL in ${this.#options.dir} does not start: ${failure}`);
      }
      await delay(RETRY_MS);
    }
  }

  /** A server left by a controller that was killed: asks whether it is in use, and stops it. */
  async #takeOver(): Promise<void> {
    const { dir, log, onSurvivor } = this.#options;
    const survivor = await readPostmaster(dir);
    if (!survivor) return;
    if (!(await isAlive(survivor, dir))) return forgetOtherProgram(survivor, dir);
    if (survivor.socketDir !== "" && onSurvivor) {
      await this.#writeAccessRules();
      await onSurvivor(connectionTo(survivor.socketDir, DATABASE));
    }
    const { pid } = survivor;
    log.info({ dir, pid }, "embedded PostgreSQL: stopping the server that a former controller left behind");
    try {
      process.kill(pid, "SIGINT");
    } catch (error) {
      // It notices that its controller is gone, too, and may have ended since it was looked for.
      if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
    }
    const deadline = performance.now() + STOP_LIMIT_MS;
    while (await isAlive(survivor, dir)) {
      if (performance.now() > deadline) {
        throw new EmbeddedPostgresError(
          `the PostgreSQL with process number ${pid} on ${dir} does not stop: stop it by hand`,
        );
      }
      await delay(RETRY_MS);
    }
  }

  /** @returns undefined when it accepts connections, else what it said before it ended. */
  async #startOnce(): Promise<string | undefined> {
    const settings = { ...SETTINGS, ...this.#options.settings, unix_socket_directories: this.#socketDir };
    const args = Object.entries(settings).flatMap(([key, value]) => ["-c", `${key}=${value}`]);
    this.#guard = guarded(join(this.#binaries, "postgres"), ["-D", this.#options.dir, ...args]);
    const child = this.#spawn(this.#guard.command, this.#guard.args);
    this.#child = child;
    const complaints: string[] = [];
    let ready = false;
    return new Promise<string | undefined>((answer) => {
      const lines = createInterface({ input: child.stderr });
      lines.on("line", (line) => {
        this.#report(line);
        if (!ready && /^(FATAL|PANIC|ERROR|HINT|DETAIL)/.test(line)) complaints.push(line);
        if (line.includes("database system is ready to accept connections")) {
          ready = true;
          answer(undefined);
        }
      });
      child.stdout.resume();
      child.once("error", (error) => answer(error.message));
      child.once("close", (code) => {
        answer(complaints.join(" ") || `it ended with status ${code}`);
        if (ready) this.#died(code);
      });
    });
  }

  #died(code: number | null): void {
    if (this.#stopping || this.#restart) return;
    const { log, dir } = this.#options;
    log.error({ dir, status: code }, "the embedded PostgreSQL ended unexpectedly: starting it again");
    this.#restart = (async () => {
      const backoff = new Backoff({ firstMs: RETRY_MS, maxMs: MAX_PAUSE_MS });
      while (!this.#stopping) {
        try {
          await this.#launch();
          log.info({ dir }, "the embedded PostgreSQL runs again");
          break;
        } catch (error) {
          log.error({ dir, error: String(error) }, "the embedded PostgreSQL does not start again");
          await delay(backoff.next());
        }
      }
      this.#restart = undefined;
    })();
  }

  #report(line: string): void {
    if (line === "") return;
    const [, level = "LOG", text = line] = /^(\w+):\s+(.*)$/.exec(line) ?? [];
    const fields = { source: "postgresql" };
    const isOfServer = level === "PANIC" || (level === "FATAL" && !OF_ONE_SESSION.test(text));
    if (isOfServer) this.#options.log.warn(fields, text);
    else this.#options.log.debug(fields, text);
  }

  #spawn(program: string, args: readonly string[]): ChildProcessWithoutNullStreams {
    const identity = this.#user ? { uid: this.#user.uid, gid: this.#user.gid } : {};
    return spawn(program, args, {
      ...identity,
      cwd: this.#options.dir,
      detached: true,
      stdio: ["pipe", "pipe", "pipe"],
      env: { PATH: process.env.PATH ?? "/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" },
    });
  }

  /** Only the user that runs this controller may connect, and only over the socket. */
  async #writeAccessRules(): Promise<void> {
    const { dir } = this.#options;
    const allowed = new Set([userInfo().username, ...(this.#user ? [this.#user.name] : [])]);
    const map = [...allowed].map((name) => `sallyport "${name}" ${SUPERUSER}`).join("\n");
    await this.#writeOwned(join(dir, "pg_hba.conf"), "local all all peer map=sallyport\n");
    await this.#writeOwned(join(dir, "pg_ident.conf"), `${map}\n`);
  }

  async #writeOwned(path: string, text: string): Promise<void> {
    await writeFile(path, text, { mode: 0o600 });
    if (this.#user) await chown(path, this.#user.uid, this.#user.gid);
  }

  async #createDatabase(): Promise<void> {
    await withClient(connectionTo(this.#socketDir, "postgres"), async (client) => {
      const text = "SELECT 1 FROM pg_database WHERE datname = $1";
      const rows = await ask(client, text, [DATABASE], CREATE_LIMIT_MS);
      if (rows.length === 0) await ask(client, `CREATE DATABASE ${DATABASE}`, undefined, CREATE_LIMIT_MS);
    });
  }
}

/** How to reach a database of the embedded server whose socket lies in that folder; by default the one that holds the network. */
export function connectionTo(socketDir: string, database = DATABASE): PostgresConnection {
  return { host: socketDir, port: PORT, user: SUPERUSER, database };
}

async function makeDataFolder(dir: string, user: PostgresUser | undefined): Promise<void> {
  await makeFolder(dir, 0o700);
  if (!user) return closeToOthers(dir);
  if ((await stat(dir)).uid !== user.uid) {
    if ((await readdir(dir)).length > 0) {
      throw new EmbeddedPostgresError(
        `the data folder ${dir} does not belong to the user ${user.name}, which must run PostgreSQL: chown -R ${user.name} ${dir}`,
      );
    }
    await chown(dir, user.uid, user.gid);
  }
  await chmod(dir, 0o700);
  if (!(await isReachable(dir, user))) {
    throw new EmbeddedPostgresError(
      `the user ${user.name}, which must run PostgreSQL, cannot enter ${dirname(dir)}: choose a data folder below an open one, for example /var/lib/sallyport`,
    );
  }
}

// A platform that mounts a volume may have given it to a group, files and all; PostgreSQL refuses a data folder that a group may write to.
async function closeToOthers(dir: string): Promise<void> {
  const { uid, mode } = await stat(dir);
  if (uid === process.getuid?.() && (mode & 0o027) !== 0) await chmod(dir, 0o700);
}

// Always the same short name for a data folder, so that a killed controller leaves at most one; never one that another user made.
async function makeSocketFolder(dir: string, user: PostgresUser | undefined): Promise<string> {
  const name = createHash("sha256").update(dir).digest("hex").slice(0, 16);
  const folder = join(tmpdir(), `sallyport-${name}`);
  const owner = user ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  const found = await lstat(folder);
  if (!found.isDirectory() || (found.uid !== owner.uid && found.uid !== process.getuid?.())) {
    throw new EmbeddedPostgresError(
      `${folder}, which is to hold the socket of PostgreSQL, belongs to another user: remove it`,
    );
  }
  await chown(folder, owner.uid, owner.gid);
  await chmod(folder, 0o700);
  return folder;
}
