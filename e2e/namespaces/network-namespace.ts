/**
 * Network namespaces for tests: hosts with interfaces, routes and packet filters of their own, joined by cables.
 *
 * ```ts
 * const site = new Site();
 * const router = await site.host("router");
 * const client = await site.host("client");
 * const cable = await site.cable(router, "192.0.2.1/24", client, "192.0.2.2/24");
 * await client.run("ping", "-c", "1", "192.0.2.1");
 * const loss = await router.lose({ protocol: "tcp", port: 3022, share: 0.2 });  // a fifth of the packets, both ways
 * await loss.end();
 * await cable.cut(); // silently, both ways
 * await site.close();
 * ```
 * The process that runs the tests is in a private namespace itself (`run.ts`): `site.here()` is that one, so that programs
 * on 127.0.0.1 can be cut off from each other by port.
 */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Program, type ProgramOptions } from "../network/program.ts";

/** True when the tests run where they may make namespaces; `describe.skipIf(!hasNamespaces)`. */
export const hasNamespaces = process.env.SALLYPORT_IN_NAMESPACE !== undefined;

export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Which packets; all when empty. A port is that of either end. */
export interface PacketMatch {
  readonly protocol?: "tcp" | "udp";
  readonly port?: number;
  /** Address or CIDR of either end. */
  readonly address?: string;
  /** Which way, as the namespace sees it; both when absent. */
  readonly direction?: "in" | "out";
  /** Share of the packets, 0 to 1; all when absent. */
  readonly share?: number;
}

export interface Fault {
  end(): Promise<void>;
}

export interface DelayProxyOptions {
  readonly host: string;
  readonly port: number;
  readonly targetHost: string;
  readonly targetPort: number;
  /** Added to each direction. */
  readonly delayMs: number;
}

/** Files of tests may share the namespace of this process: each has faults of its own, under no name of the program's. */
const TABLE = `test_faults_${process.pid}`;
let created = 0;

/** The hosts of one test file. */
export class Site {
  readonly #hosts: Host[] = [];
  readonly #folder = mkdtempSync(join(tmpdir(), "sallyport-site-"));
  #here: Host | undefined;

  /** A new host with loopback up and nothing else. */
  async host(label: string): Promise<Host> {
    const name = `sp-${process.pid}-${++created}-${label}`;
    await execute("ip", ["netns", "add", name]);
    const host = new Host(label, name, this.#folder);
    this.#hosts.push(host);
    await host.ip("link", "set", "lo", "up");
    return host;
  }

  /** The namespace of this process, which the files of one run share: end your faults, and match your own ports. */
  here(): Host {
    this.#here ??= new Host("here", undefined, this.#folder);
    return this.#here;
  }

  /** Joins two hosts by a pair of interfaces that have these addresses (with prefix length; several, IPv6 too, as lists) and are up. */
  async cable(a: Host, ofA: string | readonly string[], b: Host, ofB: string | readonly string[]): Promise<Cable> {
    const number = ++created;
    const [nameOfA, nameOfB] = [`c${process.pid}x${number}a`, `c${process.pid}x${number}b`];
    // Made in one of the namespaces and moved: neither end is ever seen by another process.
    await a.ip("link", "add", nameOfA, "type", "veth", "peer", "name", nameOfB);
    if (a.name !== b.name) await a.ip("link", "set", nameOfB, "netns", b.name ?? String(process.pid));
    for (const [host, device, addresses] of [
      [a, nameOfA, ofA],
      [b, nameOfB, ofB],
    ] as const) {
      for (const address of [addresses].flat()) {
        // Without "nodad" an IPv6 address cannot be used in the first second.
        await host.ip("addr", "add", address, "dev", device, ...(address.includes(":") ? ["nodad"] : []));
      }
      await host.ip("link", "set", device, "up");
    }
    return new Cable({ host: a, device: nameOfA }, { host: b, device: nameOfB });
  }

  /** Ends every process in the hosts and removes the hosts with all that is in them. */
  async close(): Promise<void> {
    await this.#here?.endFaults();
    for (const host of this.#hosts.toReversed()) await host.remove();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

interface CableEnd {
  readonly host: Host;
  readonly device: string;
}

/** A pair of interfaces that joins two hosts. */
export class Cable {
  readonly a: CableEnd;
  readonly b: CableEnd;

  constructor(a: CableEnd, b: CableEnd) {
    this.a = a;
    this.b = b;
  }

  /** From now on packets vanish in both directions; neither end is told. */
  async cut(): Promise<void> {
    for (const { host, device } of [this.a, this.b]) await host.dropOn(device);
  }

  async repair(): Promise<void> {
    for (const { host, device } of [this.a, this.b]) await host.endDropOn(device);
  }

  /** Limits the rate in both directions; `undefined` lifts the limit. */
  async limit(bytesPerSecond: number | undefined): Promise<void> {
    for (const { host, device } of [this.a, this.b]) {
      await host.attempt("tc", "qdisc", "del", "dev", device, "root");
      if (bytesPerSecond === undefined) continue;
      const rate = `${Math.round(bytesPerSecond * 8)}bit`;
      await host.run(
        "tc",
        "qdisc",
        "add",
        "dev",
        device,
        "root",
        "tbf",
        "rate",
        rate,
        "burst",
        "64kb",
        "latency",
        "200ms",
      );
    }
  }
}

/** A network namespace. */
export class Host {
  readonly label: string;
  /** As `ip netns` knows it; absent for the namespace of this process. */
  readonly name: string | undefined;
  readonly #folder: string;
  readonly #programs: Program[] = [];
  #resolver: string | undefined;
  #hasTable = false;

  constructor(label: string, name: string | undefined, folder: string) {
    this.label = label;
    this.name = name;
    this.#folder = folder;
  }

  /** Programs started from now on find this name server (address, port 53) in /etc/resolv.conf. */
  resolveWith(...nameServers: string[]): void {
    this.#resolver = join(this.#folder, `${this.label}.resolv.conf`);
    writeFileSync(
      this.#resolver,
      `${nameServers.map((server) => `nameserver ${server}`).join("\n")}\noptions attempts:2 timeout:3\n`,
    );
  }

  /** Command line that runs a program inside, with the file of `resolveWith`; signals reach the program itself. */
  commandLine(command: string, args: readonly string[]): [string, string[]] {
    const bind =
      this.#resolver === undefined
        ? []
        : ["sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', this.#resolver];
    const enter =
      this.name === undefined ? (bind.length > 0 ? ["unshare", "--mount"] : []) : ["ip", "netns", "exec", this.name];
    const [first = command, ...rest] = [...enter, ...bind, command, ...args];
    return [first, rest];
  }

  /** Runs a program to its end; rejects with its words when it ends with an error. */
  async run(command: string, ...args: string[]): Promise<Ran> {
    return await execute(...this.commandLine(command, args));
  }

  /** The same, resolving with the exit code whatever it is. */
  async attempt(command: string, ...args: string[]): Promise<Ran> {
    return await execute(...this.commandLine(command, args), { mayFail: true });
  }

  async ip(...args: string[]): Promise<string> {
    return (await execute("ip", [...(this.name === undefined ? [] : ["-n", this.name]), ...args])).stdout;
  }

  /** Loads rules into this namespace's packet filter. */
  async nft(rules: string): Promise<string> {
    const [command, args] = this.commandLine("nft", ["-a", "-e", "-f", "-"]);
    return (await execute(command, args, { input: rules })).stdout;
  }

  /** Starts a program that runs until it is stopped, or until the site is closed. */
  start(options: ProgramOptions): Program {
    const [command, args] = this.commandLine(options.command, options.args);
    const program = new Program({ ...options, command, args });
    this.#programs.push(program);
    return program;
  }

  /** Starts a TypeScript or JavaScript file on this Node. */
  startNode(name: string, file: string, args: readonly string[] = [], env?: Readonly<Record<string, string>>): Program {
    return this.start({ name, command: process.execPath, args: [file, ...args], ...(env !== undefined && { env }) });
  }

  /** Packets that match are dropped, silently for both ends. */
  async lose(match: PacketMatch = {}): Promise<Fault> {
    await this.#prepareTable();
    const share = match.share === undefined ? "" : `numgen random mod 1000 < ${Math.round(match.share * 1000)} `;
    const family = match.address?.includes(":") ? "ip6" : "ip";
    const rules: string[] = [];
    for (const chain of match.direction === undefined ? ["in", "out"] : [match.direction]) {
      for (const side of ["s", "d"]) {
        const address = match.address === undefined ? "" : `${family} ${side}addr ${match.address} `;
        const port =
          match.port !== undefined
            ? `${match.protocol ?? "tcp"} ${side}port ${match.port} `
            : match.protocol !== undefined
              ? `meta l4proto ${match.protocol} `
              : "";
        rules.push(`add rule inet ${TABLE} ${chain} ${address}${port}${share}drop`);
        // A rule without an end that it is about would otherwise be there twice, and with a share count twice.
        if (match.address === undefined && match.port === undefined) break;
      }
    }
    const handles = [...(await this.nft(rules.join("\n"))).matchAll(/^add rule inet \S+ (\S+) .*# handle (\d+)$/gm)];
    if (handles.length !== rules.length) throw new Error(`nft told ${handles.length} handles of ${rules.length} rules`);
    return {
      end: async () => {
        await this.nft(
          handles.map(([, chain, handle]) => `delete rule inet ${TABLE} ${chain} handle ${handle}`).join("\n"),
        );
      },
    };
  }

  async dropOn(device: string): Promise<void> {
    await this.#prepareTable();
    await this.nft(`add element inet ${TABLE} cut { "${device}" }`);
  }

  async endDropOn(device: string): Promise<void> {
    if (this.#hasTable) await this.nft(`delete element inet ${TABLE} cut { "${device}" }`);
  }

  /** A TCP relay inside this namespace that adds a delay to each direction. */
  async delayProxy(options: DelayProxyOptions): Promise<Program> {
    const name = `delay proxy on ${options.host}:${options.port}`;
    const proxy = this.startNode(name, join(import.meta.dirname, "delay-proxy.ts"), [JSON.stringify(options)]);
    await proxy.line(/^listening$/);
    return proxy;
  }

  async endFaults(): Promise<void> {
    if (!this.#hasTable) return;
    this.#hasTable = false;
    await this.nft(`delete table inet ${TABLE}`);
  }

  async remove(): Promise<void> {
    if (this.name === undefined) return;
    await Promise.all(this.#programs.map((program) => program.stop()));
    const left = (await execute("ip", ["netns", "pids", this.name])).stdout.split("\n").filter((line) => line !== "");
    for (const pid of left) {
      try {
        process.kill(Number(pid), "SIGKILL");
      } catch {
        // It has ended meanwhile.
      }
    }
    await execute("ip", ["netns", "delete", this.name]);
  }

  async #prepareTable(): Promise<void> {
    if (this.#hasTable) return;
    this.#hasTable = true;
    await this.nft(`
      table inet ${TABLE} {
        set cut { type ifname
        }
        chain in { type filter hook prerouting priority -400; policy accept; iifname @cut drop
        }
        chain out { type filter hook postrouting priority 400; policy accept; oifname @cut drop
        }
      }`);
  }
}

interface ExecuteOptions {
  readonly input?: string;
  readonly mayFail?: boolean;
}

async function execute(command: string, args: readonly string[], options: ExecuteOptions = {}): Promise<Ran> {
  return await new Promise((resolve, reject) => {
    const child = execFile(command, args, { timeout: 60_000, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === "number" ? error.code : -1;
      if (code === 0 || (options.mayFail === true && code > 0)) resolve({ code, stdout, stderr });
      else
        reject(
          new Error(`${command} ${args.join(" ")} ended with ${error?.code ?? error?.signal}: ${stderr}${stdout}`),
        );
    });
    if (options.input !== undefined) child.stdin?.end(options.input);
  });
}
