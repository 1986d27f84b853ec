import type { ChildProcess } from "node:child_process";
import { readFile, readlink, realpath, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** What a running (or killed) PostgreSQL says about itself in `postmaster.pid`. */
export interface Postmaster {
  pid: number;
  /** Folder of its Unix socket, empty while it is still starting. */
  socketDir: string;
}

/** Reads `postmaster.pid` of a data folder; undefined when there is none. */
export async function readPostmaster(dataDir: string): Promise<Postmaster | undefined> {
  const text = await readFile(join(dataDir, "postmaster.pid"), "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  const lines = text?.split("\n");
  const pid = Number(lines?.[0]);
  if (!Number.isInteger(pid) || pid <= 0) return undefined;
  return { pid, socketDir: lines?.[4]?.trim() ?? "" };
}

/**
 * Is that process alive, and this data folder's? Process numbers are used again (in a container, soon): on Linux the working
 * directory tells; elsewhere a living process of that number counts as ours.
 */
export async function isAlive(postmaster: Postmaster, dataDir: string): Promise<boolean> {
  if (!processExists(postmaster.pid)) return false;
  try {
    return (await readlink(`/proc/${postmaster.pid}/cwd`)) === (await realpath(dataDir));
  } catch {
    return process.platform !== "linux" && processExists(postmaster.pid);
  }
}

// Larger than any process number of Linux or macOS.
const NO_PROCESS = 0x7fff_fff0;

/**
 * PostgreSQL takes any living process whose number stands in `postmaster.pid` for a running server and refuses to start. When another program has that number
 * now, this replaces it by one that no process has; the rest stays, as PostgreSQL finds orphaned backends by it.
 */
export async function forgetOtherProgram(postmaster: Postmaster, dataDir: string): Promise<void> {
  if (!processExists(postmaster.pid) || process.platform !== "linux") return;
  // A server that has just ended has taken its file away.
  if ((await readPostmaster(dataDir))?.pid !== postmaster.pid) return;
  const path = join(dataDir, "postmaster.pid");
  const lines = (await readFile(path, "utf8")).split("\n");
  lines[0] = String(NO_PROCESS);
  await writeFile(path, lines.join("\n"));
}

export function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** No user of this system can run the embedded PostgreSQL. */
export class PostgresUserError extends Error {
  override name = "PostgresUserError";
}

/** The operating system's user under which the embedded PostgreSQL runs. */
export interface PostgresUser {
  name: string;
  uid: number;
  gid: number;
}

const CANDIDATES = ["postgres", "nobody"];

/**
 * The user that runs PostgreSQL, which refuses to run as root: undefined (the same user) unless this process is root, else the wanted one, `postgres`, or the
 * user "nobody".
 */
export async function postgresUser(wanted?: string): Promise<PostgresUser | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const users = (await readFile("/etc/passwd", "utf8"))
    .split("\n")
    .map((line) => line.split(":"))
    .map(([name = "", , uid, gid]) => ({ name, uid: Number(uid), gid: Number(gid) }))
    .filter((user) => user.uid > 0 && user.gid > 0);
  const names = wanted === undefined ? CANDIDATES : [wanted];
  for (const name of names) {
    const user = users.find((candidate) => candidate.name === name);
    if (user) return user;
  }
  throw new PostgresUserError(
    `the controller runs as root, and PostgreSQL refuses to: none of the users ${names.join(", ")} exists. ` +
      "Create one, run the controller as another user, or give a database URL",
  );
}

/** How a server is started and stopped, so that it does not outlive this process. */
export interface Guard {
  readonly command: string;
  readonly args: readonly string[];
  /** Asks the started server for a fast shutdown: connections are ended, the data written. */
  stop(child: ChildProcess): void;
}

// PostgreSQL must end when we are killed, and must not see the Ctrl-C of our terminal: a small shell in a session of its own
// holds our pipe, and stops the server when it closes.
const SCRIPT = `exec 3<&0
"$@" 3<&- </dev/null &
server=$!
{ read -r _ <&3; kill -INT "$server"; } 2>/dev/null &
guard=$!
exec 3<&-
wait "$server"
status=$?
kill "$guard" 2>/dev/null
exit "$status"`;

/**
 * @param env of this process. `SALLYPORT_CONTAINER=1` says that it is alone in a container, which ends with it and all that it started, and that there is
 *   no shell (docs/images.md, "The controller's PostgreSQL")
 */
export function guarded(program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env): Guard {
  if (env.SALLYPORT_CONTAINER === "1") return { command: program, args, stop: (child) => child.kill("SIGINT") };
  return {
    command: "/bin/sh",
    args: ["-c", SCRIPT, "sh", program, ...args],
    stop: (child) => child.stdin?.end(),
  };
}
