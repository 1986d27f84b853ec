/** An engine of the cluster's own, in namespaces of its own: what it writes to is a folder, and what it starts ends with it. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { BoxLayout, Component } from "../../box/box-plan.ts";
import { run } from "../../box/processes.ts";
import type { NodeImage } from "./engine-plan.ts";

/** More than this the kernel does not give to every user. */
const MAX_PROCESSES = 32_768;
const MAX_FILES = 1_048_576;
const TRIPLETS: Readonly<Record<string, string>> = { x64: "x86_64-linux-gnu", arm64: "aarch64-linux-gnu" };

export class Podman {
  readonly #box: BoxLayout;
  /** Of the packages; empty when they are installed. */
  readonly #packages: string;
  readonly #folder: string;
  readonly #node: NodeImage;

  /** Writes its configuration. @param root folder of the packages podman, netavark and iptables */
  constructor(box: BoxLayout, root: string, node: NodeImage) {
    this.#box = box;
    this.#packages = root === "/" ? "" : root;
    this.#folder = box.file("engine");
    this.#node = node;
    // Where it looks for it first.
    const policies = join(this.#folder, ".config", "containers");
    mkdirSync(policies, { recursive: true });
    writeFileSync(join(policies, "policy.json"), JSON.stringify({ default: [{ type: "insecureAcceptAnything" }] }));
    writeFileSync(join(this.#folder, "containers.conf"), this.#settings());
    writeFileSync(join(this.#folder, "storage.conf"), this.#storage([]));
  }

  /** Where it answers in the language of Docker. */
  get socket(): string {
    return this.#box.file("podman.sock");
  }

  /** Unpacks the image for all clusters that will be, unless that was done: it takes longer than all the rest. */
  async load(): Promise<void> {
    const store = `${this.#node.archive}.store`;
    if (!existsSync(store)) {
      // Of several at a time one wins.
      const own = `${store}.${this.#box.plan.slot}`;
      await rm(own, { recursive: true, force: true });
      const load = ["load", "--quiet", "--input", this.#node.archive];
      await run("env", ...this.#command("--root", own, "--storage-driver", "overlay", ...load));
      // Bound to the folder itself, where there is no image.
      await run("umount", join(own, "overlay")).catch(() => {});
      await rename(own, store).catch(async () => await rm(own, { recursive: true, force: true }));
    }
    writeFileSync(join(this.#folder, "storage.conf"), this.#storage([store]));
  }

  service(): Component {
    const args = this.#command("system", "service", "--time=0", `unix://${this.socket}`);
    return { name: "podman", command: "env", args };
  }

  /** For `env`. */
  #command(...args: readonly string[]): string[] {
    const libraries = join(this.#packages, "usr/lib", TRIPLETS[process.arch] ?? "");
    const environment = {
      HOME: this.#folder,
      CONTAINERS_CONF: join(this.#folder, "containers.conf"),
      CONTAINERS_STORAGE_CONF: join(this.#folder, "storage.conf"),
      PATH: `${this.#packages}/usr/bin:${this.#packages}/usr/sbin:${process.env.PATH}`,
      ...(this.#packages !== "" && { LD_LIBRARY_PATH: libraries, XTABLES_LIBDIR: join(libraries, "xtables") }),
    };
    const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
    return [...variables, `${this.#packages}/usr/bin/podman`, ...args];
  }

  #settings(): string {
    const text = JSON.stringify;
    const { files, processes } = limits(readFileSync("/proc/self/limits", "utf8"));
    return `[containers]
# Its own defaults are above what may be had where it has less than all rights, and then nothing starts.
default_ulimits = [${text(`nofile=${files}:${files}`)}, ${text(`nproc=${processes}:${processes}`)}]
[network]
network_backend = "netavark"
network_config_dir = ${text(join(this.#folder, "networks"))}
default_subnet = ${text(this.#box.addresses.containers)}
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
helper_binaries_dir = [${text(`${this.#packages}/usr/lib/podman`)}]
conmon_path = [${text(`${this.#packages}/usr/bin/conmon`)}]
[engine.runtimes]
runc = [${text(this.#box.containerd("usr/sbin/runc"))}]
`;
  }

  #storage(stores: readonly string[]): string {
    return `[storage]
driver = "overlay"
graphroot = ${JSON.stringify(join(this.#folder, "storage"))}
runroot = "/run/containers/storage"
[storage.options]
additionalimagestores = ${JSON.stringify(stores)}
`;
  }
}

interface Limits {
  readonly files: number;
  readonly processes: number;
}

/** What a process may give to others, of the kernel's list of its limits; pure. */
export function limits(table: string): Limits {
  const hard = (name: string): number => {
    const found = new RegExp(`^${name} +\\S+ +(\\S+)`, "m").exec(table)?.[1];
    return found === undefined || found === "unlimited" ? Number.POSITIVE_INFINITY : Number(found);
  };
  return {
    files: Math.min(hard("Max open files"), MAX_FILES),
    processes: Math.min(hard("Max processes"), MAX_PROCESSES),
  };
}
