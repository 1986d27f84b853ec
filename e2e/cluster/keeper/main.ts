/**
 * The keeper of one cluster: `node keeper/main.ts OPTIONS`, options as JSON. It takes a slot, makes the box and its cable, and
 * removes everything when its input ends: when the test has closed the cluster, and when the test has crashed. It is in
 * a session of its own, so that what ends the test does not end it. Should it be killed itself, then the kernel ends the
 * box with it, and the next cluster removes the folder and the control groups that are left.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, mkdirSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "@sallyport/async";
import { type Addresses, addressesOf, SLOTS } from "../box/addresses.ts";
import type { BoxPlan, Tools } from "../box/box-plan.ts";
import { makeControlGroups, removeControlGroups } from "../box/control-groups.ts";
import { run } from "../box/processes.ts";
import type { Engine, EnginePlan } from "../ways/container/engine-plan.ts";
import { type KeeperState, type Question, takeSlot } from "./lock.ts";
import { type Downward, listen, say, type Upward } from "./protocol.ts";

export interface KeeperOptions {
  readonly nodes: number;
  readonly images: readonly string[];
  readonly tools: Tools;
  /** The cluster is in a container of this one, which runs in the namespaces of the box, or is Docker's of the machine. */
  readonly engine?: Engine;
  /** It stays when its input ends, until `closeClusters` asks it to go. */
  readonly stays?: boolean;
}

/** Folder and control groups; distinguished by the network namespace, as the lock and the cable are. */
function nameOf(slot: number): string {
  const space = /\d+/.exec(readlinkSync("/proc/self/ns/net"))?.[0] ?? "0";
  return `sallyport-cluster-${space}-${slot}`;
}

class Keeper {
  readonly #options: KeeperOptions;
  readonly #slot: number;
  readonly #addresses: Addresses;
  readonly #name: string;
  readonly #folder: string;
  #box: ChildProcess | undefined;
  #ready: string | undefined;
  #ending: Promise<void> | undefined;

  private constructor(options: KeeperOptions, slot: number) {
    this.#options = options;
    this.#slot = slot;
    this.#addresses = addressesOf(slot);
    this.#name = nameOf(slot);
    this.#folder = join(tmpdir(), this.#name);
  }

  /** Takes the first slot that is free, and removes what is left in those whose keepers were killed. */
  static async create(options: KeeperOptions): Promise<Keeper> {
    let keeper: Keeper | undefined;
    for (let slot = 0; slot < SLOTS; slot++) {
      const isLeft = readdirSync(tmpdir()).includes(nameOf(slot));
      if (keeper !== undefined && !isLeft) continue;
      const found = new Keeper(options, slot);
      const lock = await takeSlot(slot, (question) => found.#answer(question));
      if (lock === undefined) continue;
      await found.#clean();
      if (keeper === undefined) keeper = found;
      else lock.close();
    }
    if (keeper === undefined) throw new Error(`all ${SLOTS} slots for clusters are taken on this machine`);
    return keeper;
  }

  async #answer(question: Question): Promise<KeeperState> {
    if (question === "close") await this.end();
    return { stays: this.#options.stays === true, ...(this.#ready !== undefined && { kubeconfig: this.#ready }) };
  }

  async start(): Promise<void> {
    const { nodes, images, tools, engine } = this.#options;
    mkdirSync(join(this.#folder, "logs"), { recursive: true, mode: 0o755 });
    const plan: BoxPlan = { slot: this.#slot, folder: this.#folder, group: this.#name, nodes, tools, images };
    const file = join(this.#folder, "plan.json");
    writeFileSync(file, JSON.stringify(engine === undefined ? plan : ({ ...plan, engine } satisfies EnginePlan)));
    if (nodes > 0 && engine === undefined) makeControlGroups(this.#name, nodes);
    const box = this.#spawn(file);
    const ended = once(box, "exit");
    box.stderr?.pipe(process.stderr);
    box.stderr?.pipe(createWriteStream(join(this.#folder, "logs", "box.log")).on("error", () => {}));
    void listen<Upward>(box.stdout ?? process.stdin, (message) => {
      if ("ready" in message) this.#ready = message.ready.kubeconfig;
      say(process.stdout, message);
      if ("failed" in message) void this.end();
    });
    void ended.then(() => {
      if (this.#ending === undefined)
        say(process.stdout, { failed: `the box has ended${this.#ready ? "" : " before it was ready"}` });
      void this.end();
    });
    if (this.#isBoxed) await this.#plugIn(box.pid ?? -1, ended);
    this.tell({ cable: true });
  }

  tell(message: Downward): void {
    if (this.#box?.stdin?.writable) say(this.#box.stdin, message);
  }

  /** Ends all processes and removes everything. May be called again and again. */
  end(): Promise<void> {
    this.#ending ??= this.#end();
    return this.#ending;
  }

  async #end(): Promise<void> {
    const box = this.#box;
    if (box !== undefined && box.exitCode === null && box.signalCode === null) {
      const ended = once(box, "exit");
      // The first process of the namespace; unshare ends when the kernel has ended the others with it.
      const first = childOf(box.pid ?? -1);
      if (!this.#isBoxed) box.stdin?.end();
      else if (first !== undefined) process.kill(first, "SIGKILL");
      else box.kill("SIGKILL");
      await ended;
    }
    await this.#clean().catch((error: unknown) => {
      console.error(`something of the cluster is left: ${errorText(error)}`);
      process.exitCode = 1;
    });
    // The process that asked by the lock is answered first.
    setTimeout(() => process.exit(), 50);
  }

  #spawn(file: string): ChildProcess {
    const { tools, engine } = this.#options;
    const path = [join(tools.containerd, "usr/bin"), join(tools.containerd, "usr/sbin"), tools.nft, process.env.PATH];
    // The first process is a shell, as it buries those whose parents have ended; it would take the input of what it starts.
    const first = ["bash", "-c", 'exec 3<&0; "$@" <&3 & wait $!', "box"];
    const namespaces = [
      "--net",
      "--mount",
      "--propagation",
      "private",
      "--pid",
      "--fork",
      "--kill-child",
      "--mount-proc",
    ];
    const program = engine === undefined ? ["box", "main.ts"] : ["ways", "container", "engine.ts"];
    this.#box = spawn(
      "setpriv",
      [
        ...["--pdeathsig", "KILL", ...(this.#isBoxed ? ["unshare", ...namespaces, ...first] : [])],
        ...[process.execPath, join(import.meta.dirname, "..", ...program), file],
      ],
      {
        stdio: ["pipe", "pipe", "pipe"],
        env: { ...process.env, PATH: `${path.join(":")}:/usr/sbin:/sbin`, HOME: this.#folder, TMPDIR: this.#folder },
      },
    );
    this.#box.stdin?.on("error", () => {});
    return this.#box;
  }

  /** A cable from the machine into the box, and a route to everything that is in it. */
  async #plugIn(pid: number, ended: Promise<unknown>): Promise<void> {
    const own = readlinkSync("/proc/self/ns/net");
    let isEnded = false;
    void ended.then(() => {
      isEnded = true;
    });
    while (readlinkSync(`/proc/${pid}/ns/net`) === own) {
      if (isEnded) throw new Error("the namespaces of the box could not be made");
      await delay(5);
    }
    await run("ip", "link", "add", this.#device, "type", "veth", "peer", "name", "eth0", "netns", String(pid));
    await run("ip", "addr", "add", `${this.#addresses.machine}/30`, "dev", this.#device);
    await run("ip", "link", "set", this.#device, "up");
    await run("ip", "route", "add", this.#addresses.network, "via", this.#addresses.box);
  }

  /** Docker is the machine's, and so are its containers. */
  get #isBoxed(): boolean {
    return this.#options.engine?.kind !== "docker";
  }

  get #device(): string {
    return `spcluster${this.#slot}`;
  }

  /** What outlives the processes: the cable goes with the namespace, a moment later. */
  async #clean(): Promise<void> {
    await run("ip", "link", "delete", this.#device).catch(() => {});
    try {
      await removeControlGroups(this.#name);
    } finally {
      rmSync(this.#folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
    }
  }
}

function childOf(pid: number): number | undefined {
  try {
    const [first] = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
    return first ? Number(first) : undefined;
  } catch {
    return undefined;
  }
}

const options = JSON.parse(process.argv[2] ?? "{}") as KeeperOptions;
process.stdout.on("error", () => {});
process.stderr.on("error", () => {});
process.env.PATH = `${process.env.PATH}:/usr/sbin:/sbin`;
try {
  const keeper = await Keeper.create(options);
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => void keeper.end());
  if (options.stays !== true) {
    void listen<Downward>(process.stdin, (message) => keeper.tell(message)).then(() => keeper.end());
  }
  await keeper.start().catch(async (error: unknown) => {
    say(process.stdout, { failed: errorText(error) });
    await keeper.end();
  });
} catch (error) {
  say(process.stdout, { failed: errorText(error) });
  process.exitCode = 1;
}
