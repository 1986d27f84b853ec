import { readdir, readFile, readlink } from "node:fs/promises";

/** A process that listens on the name of a slot. */
export interface SlotHolder {
  readonly pid: number;
  /** As the kernel calls it. */
  readonly program: string;
  readonly userId: number;
  /** It may change routes and rules. One that may not is no tunneler: it only keeps the slot from others. */
  readonly mayChangeHost: boolean;
}

/** CAP_NET_ADMIN in the sets of /proc/<pid>/status. */
const NET_ADMIN = 1n << 12n;

/**
 * Who listens on abstract Unix sockets, by their names (without the leading zero byte). Processes that are not to be seen
 * from here, those of another container, are left out.
 */
export async function holdersOf(names: ReadonlySet<string>): Promise<Map<string, SlotHolder>> {
  const holders = new Map<string, SlotHolder>();
  const byInode = await inodesOf(names);
  if (byInode.size === 0) return holders;
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
  for (const pid of pids) {
    for (const inode of await socketsOf(pid)) {
      const name = byInode.get(inode);
      const holder = name === undefined ? undefined : await describe(pid);
      if (name !== undefined && holder !== undefined) holders.set(name, holder);
    }
  }
  return holders;
}

export function describeHolder({ pid, program, userId, mayChangeHost }: SlotHolder): string {
  return `process ${pid} (${program}, user ${userId}${mayChangeHost ? "" : ", which is no tunneler"})`;
}

/** The listening sockets among them. */
async function inodesOf(names: ReadonlySet<string>): Promise<Map<string, string>> {
  const byInode = new Map<string, string>();
  for (const line of (await readFile("/proc/net/unix", "latin1")).split("\n")) {
    // Num, RefCount, Protocol, Flags, Type, St, Inode, Path; the zero bytes that fill up a name are shown as @, too.
    const [, , , flags, , , inode, path] = line.trim().split(/\s+/);
    const name = path?.startsWith("@") ? path.slice(1).replace(/@+$/, "") : undefined;
    const isListening = flags !== undefined && (Number.parseInt(flags, 16) & 0x10000) !== 0;
    if (isListening && inode !== undefined && name !== undefined && names.has(name)) byInode.set(inode, name);
  }
  return byInode;
}

/** Inodes of the sockets of a process; none of one that has ended or that may not be looked at. */
async function socketsOf(pid: string): Promise<string[]> {
  const fds = await readdir(`/proc/${pid}/fd`).catch(() => []);
  const targets = await Promise.all(fds.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => "")));
  return targets.flatMap((target) => /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? []);
}

async function describe(pid: string): Promise<SlotHolder | undefined> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => undefined);
  const field = (key: string): string | undefined => new RegExp(`^${key}:\\s+(\\S+)`, "m").exec(status ?? "")?.[1];
  const [program, userId, effective] = [field("Name"), field("Uid"), field("CapEff")];
  if (program === undefined || userId === undefined || effective === undefined) return undefined;
  const mayChangeHost = (BigInt(`0x${effective}`) & NET_ADMIN) !== 0n;
  // The name is of the process's own choice.
  const printable = program.replaceAll(/[^\x20-\x7e]/g, "?");
  return { pid: Number(pid), program: printable, userId: Number(userId), mayChangeHost };
}
