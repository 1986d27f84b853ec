import { readdir, readFile, readlink } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { type Logger, listen } from "@sallyport/wire";
import { InterceptError } from "../interceptor.ts";
import { runOnHost } from "./host-command.ts";
import { deleteRules } from "./rules.ts";

/**
 * Everything that a tunneler changes on its host carries the number of a slot: the name of its packet filter table, and
 * protocol and metric of its routes. A slot belongs to the process that listens on the slot's abstract Unix socket, a name that
 * one network namespace knows and that ends with the process. So a tunneler removes rules and routes of slots without an
 * owner, and tunnelers of one host leave each other alone.
 *
 * Every process may listen on such a name. One that cannot change routes or rules is no owner: it only blocks a slot.
 */
export class HostSlot {
  readonly number: number;
  readonly #socket: Server;

  private constructor(number: number, socket: Server) {
    this.number = number;
    this.#socket = socket;
  }

  /** Takes a free slot, after removing what dead owners have left behind. @throws InterceptError */
  static async claim(log: Logger): Promise<HostSlot> {
    for (let number = FIRST; number <= LAST; number++) {
      const socket = await own(number);
      if (socket === undefined) continue;
      const slot = new HostSlot(number, socket);
      try {
        await sweep(number, log);
      } catch (error) {
        await slot.release();
        throw error;
      }
      return slot;
    }
    const taken = Array.from({ length: LAST - FIRST + 1 }, (_, index) => FIRST + index);
    const holders = [...new Map([...(await holdersOfSlots(taken)).values()].map((each) => [each.pid, each])).values()];
    const shown = holders.slice(0, MAX_SHOWN).map(holderText);
    if (holders.length > MAX_SHOWN) shown.push(`${holders.length - MAX_SHOWN} more`);
    if (shown.length === 0) shown.push("processes that cannot be seen from here");
    throw new InterceptError(
      "NO_SLOT",
      `all ${taken.length} slots for tunnelers of this network namespace are taken, by ${shown.join(", ")}; stop some of them`,
    );
  }

  get table(): string {
    return tableOf(this.number);
  }

  /** Options of `ip route` that mark a route as this slot's. */
  get routeMarks(): string {
    return `proto ${this.number} metric ${this.number}`;
  }

  /** True for other slots with a living owner. */
  async isTakenByAnother(number: number): Promise<boolean> {
    if (number === this.number) return false;
    const socket = await own(number);
    if (socket === undefined) return (await holdersOfSlots([number])).get(number)?.mayChangeHost !== false;
    await close(socket);
    return false;
  }

  async release(): Promise<void> {
    await close(this.#socket);
  }
}

/** Protocol numbers of routes that no routing daemon uses. */
const FIRST = 200;
const LAST = 247;
/** Holders of slots that an error names. */
const MAX_SHOWN = 5;
const TABLE = /^table inet sallyport_(\d+)$/gm;

/** A route in the table `local` that some tunneler made. */
export interface SlotRoute {
  readonly slot: number;
  readonly destination: string;
}

/** The routes of all slots. */
export async function routesOfSlots(): Promise<SlotRoute[]> {
  const show = (family: string) => runOnHost("ip", [family, "-N", "-j", "route", "show", "table", "local"]);
  // A host without IPv6 has no such routes.
  const texts = await Promise.all([show("-4"), show("-6").catch(() => "[]")]);
  const routes = texts.flatMap((text) => JSON.parse(text.trim() === "" ? "[]" : text) as KernelRoute[]);
  return routes
    .map((route) => ({ slot: Number(route.protocol), destination: route.dst, metric: route.metric }))
    .filter(({ slot, metric }) => slot >= FIRST && slot <= LAST && slot === metric);
}

interface KernelRoute {
  readonly dst: string;
  readonly protocol?: string;
  readonly metric?: number;
}

/** Removes rules and routes of this slot, which we own, and of all slots without an owner. */
async function sweep(owned: number, log: Logger): Promise<void> {
  const tables = await slotsWithTables();
  const routed = new Set((await routesOfSlots()).map((route) => route.slot));
  const left = new Set([...tables, ...routed]);
  const holders = left.size > 0 ? await holdersOfSlots(left) : new Map<number, SlotHolder>();
  for (const number of left) {
    const socket = number === owned ? undefined : await own(number);
    const isOwnerless = socket !== undefined || holders.get(number)?.mayChangeHost === false;
    if (number !== owned && !isOwnerless) continue;
    try {
      if (tables.has(number)) await runOnHost("nft", ["-f", "-"], deleteRules(tableOf(number)));
      if (routed.has(number)) await flushRoutes(number);
      log.warn({ slot: number }, "removed the rules and routes of a tunneler that did not end properly");
    } finally {
      if (socket !== undefined) await close(socket);
    }
  }
}

/** Removes the routes of a slot. */
export async function flushRoutes(number: number): Promise<void> {
  await runOnHost("ip", ["-4", "route", "flush", "table", "local", "proto", String(number)]);
  await runOnHost("ip", ["-6", "route", "flush", "table", "local", "proto", String(number)]).catch(() => "");
}

async function slotsWithTables(): Promise<Set<number>> {
  // Without nft on the host no tunneler can have made a table.
  const text = await runOnHost("nft", ["list", "tables"]).catch((error: unknown) => {
    if (error instanceof InterceptError && error.code === "NO_PROGRAM") return "";
    throw error;
  });
  return new Set([...text.matchAll(TABLE)].map((match) => Number(match[1])));
}

const tableOf = (number: number) => `sallyport_${number}`;

/** Of the abstract Unix socket. */
const nameOf = (number: number) => `sallyport-interception-${number}`;

/** Other processes that listen on the names of these slots, as far as they can be seen. */
async function holdersOfSlots(numbers: Iterable<number>): Promise<Map<number, SlotHolder>> {
  const byName = new Map([...numbers].map((number) => [nameOf(number), number]));
  const holders = await holdersOf(new Set(byName.keys()));
  return new Map([...holders].map(([name, holder]) => [byName.get(name) ?? 0, holder]));
}

/** Listens on the slot's name; undefined when another process does. */
async function own(number: number): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  server.unref();
  try {
    // This server serves no client, so that a failed accept does not matter.
    await listen(server, { path: `\0${nameOf(number)}` }, () => {});
    return server;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EADDRINUSE") return undefined;
    throw error;
  }
}

async function close(server: Server): Promise<void> {
  await new Promise((resolve) => server.close(resolve));
}

/** A process that listens on the name of a slot. */
interface SlotHolder {
  readonly pid: number;
  /** As the kernel calls it. */
  readonly program: string;
  readonly userId: number;
  /** It may change routes and rules. One that may not is no tunneler: it only keeps the slot from others. */
  readonly mayChangeHost: boolean;
}

/** CAP_NET_ADMIN in the sets of /proc/<pid>/status. */
const NET_ADMIN = 1n << 12n;

/** The visible processes that listen on abstract Unix sockets, by the sockets' names (without the leading zero byte). */
async function holdersOf(names: ReadonlySet<string>): Promise<Map<string, SlotHolder>> {
  const holders = new Map<string, SlotHolder>();
  const byInode = await inodesOf(names);
  if (byInode.size === 0) return holders;
  const pids = (await readdir("/proc")).filter((entry) => /^\d+$/.test(entry));
  for (const pid of pids) {
    for (const inode of await socketsOf(pid)) {
      const name = byInode.get(inode);
      const holder = name === undefined ? undefined : await holderOf(pid);
      if (name !== undefined && holder !== undefined) holders.set(name, holder);
    }
  }
  return holders;
}

function holderText({ pid, program, userId, mayChangeHost }: SlotHolder): string {
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

async function holderOf(pid: string): Promise<SlotHolder | undefined> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => undefined);
  const field = (key: string): string | undefined => new RegExp(`^${key}:\\s+(\\S+)`, "m").exec(status ?? "")?.[1];
  const [program, userId, effective] = [field("Name"), field("Uid"), field("CapEff")];
  if (program === undefined || userId === undefined || effective === undefined) return undefined;
  const mayChangeHost = (BigInt(`0x${effective}`) & NET_ADMIN) !== 0n;
  // The name is of the process's own choice.
  const printable = program.replaceAll(/[^\x20-\x7e]/g, "?");
  return { pid: Number(pid), program: printable, userId: Number(userId), mayChangeHost };
}
