import { once } from "node:events";
import { lstat, readdir, stat, unlink } from "node:fs/promises";
import { createConnection, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AGENT_MAGIC } from "./protocol.ts";

const NAME = /^gops-agent\.(\d+)\.sock$/;
const ANSWER_MS = 5_000;
const MAX_ANSWER = 64 * 1024 * 1024;

/** Where the agent of a process listens. */
export function agentSocketPath(pid: number, folder: string = tmpdir()): string {
  return join(folder, `gops-agent.${pid}.sock`);
}

/**
 * The sockets of all running processes, by process id. Any local user can put a socket of that name into the folder.
 * Sockets of other users come as `foreign` and must not be asked; for the superuser, those that the process's own user does not own.
 */
export async function agentSockets(
  folder: string = tmpdir(),
): Promise<{ readonly own: Map<number, string>; readonly foreign: Map<number, string> }> {
  const [own, foreign] = [new Map<number, string>(), new Map<number, string>()];
  for (const name of await readdir(folder)) {
    const pid = Number(NAME.exec(name)?.[1] ?? 0);
    const path = join(folder, name);
    if (pid > 0 && isAlive(pid)) ((await isForeign(path, pid)) ? foreign : own).set(pid, path);
  }
  return { own, foreign };
}

/** Whether an untrusted user may have put the socket of this process there; false when there is none. */
export async function isForeign(path: string, pid: number): Promise<boolean> {
  const known = await lstat(path).catch(() => undefined);
  if (known === undefined) return false;
  const user = process.geteuid?.();
  if (!known.isSocket()) return true;
  if (user === undefined || known.uid === user) return false;
  const owner = await stat(`/proc/${pid}`).catch(() => undefined);
  return user !== 0 || owner === undefined || owner.uid !== known.uid;
}

/**
 * Makes room for a socket: removes one without a listener, whose process had the same id.
 * @throws Error when another process listens there, or when the path is no socket
 */
export async function clearStaleSocket(path: string): Promise<void> {
  const known = await lstat(path).catch(() => undefined);
  if (known === undefined) return;
  if (!known.isSocket()) throw new Error(`${path} is in the way and is no socket`);
  const isServed = await new Promise<boolean>((resolve) => {
    const socket = createConnection(path, () => resolve(true)).on("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
  if (isServed) throw new Error(`another process listens on ${path}`);
  await unlink(path);
}

/** Listens on a socket that is its owner's alone from the first moment: the system makes it before the first wait. */
export async function listenForOwner(server: Server, path: string): Promise<void> {
  const before = process.umask(0o077);
  try {
    server.listen(path);
  } finally {
    process.umask(before);
  }
  await once(server, "listening");
}

/**
 * Asks the agent behind a socket; its whole answer.
 * @throws Error as connecting gives it (`ENOENT`, `ECONNREFUSED`, `EACCES`), or when there is no answer in time
 */
export function askAgent(path: string, request: readonly number[], timeoutMs = ANSWER_MS): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let length = 0;
    const socket = createConnection(path);
    const fail = (error: Error): void => {
      socket.destroy();
      reject(error);
    };
    socket.setTimeout(timeoutMs, () => fail(new Error(`no answer from ${path} within ${timeoutMs} ms`)));
    socket.on("connect", () => socket.write(Buffer.concat([AGENT_MAGIC, Buffer.from(request)])));
    socket.on("data", (chunk: Buffer) => {
      parts.push(chunk);
      length += chunk.length;
      if (length > MAX_ANSWER) fail(new Error(`the answer from ${path} is longer than ${MAX_ANSWER} bytes`));
    });
    socket.on("end", () => {
      socket.end();
      resolve(Buffer.concat(parts));
    });
    socket.on("error", fail);
  });
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
