import { spawnSync } from "node:child_process";
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, type Stats } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Program } from "../network/program.ts";

/** The part of an image's configuration that says how it is started. */
export interface StoredConfig {
  readonly User: string;
  readonly Entrypoint: readonly string[];
  readonly Cmd: readonly string[];
  readonly Env: readonly string[];
  readonly WorkingDir: string;
  readonly StopSignal: string;
  readonly Volumes: Readonly<Record<string, unknown>>;
  readonly ExposedPorts: Readonly<Record<string, unknown>>;
  readonly Labels: Readonly<Record<string, string>>;
}

export interface Ended {
  readonly status: number | null;
  readonly output: string;
  readonly errors: string;
}

export interface RunOptions {
  /** Instead of the image's command. */
  readonly args?: readonly string[];
  /** Instead of the image's entrypoint. */
  readonly entrypoint?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** `uid:gid`, instead of the image's. */
  readonly user?: string;
  /** Folders of this machine, by where they are in the container. */
  readonly mounts?: Readonly<Record<string, string>>;
  /** A network of its own, with a loopback only. */
  readonly isolated?: boolean;
}

const MAX_RUN_MS = 150_000;

// Its own mounts and processes; nothing of the image can be written, nothing of this machine can be seen but the mounts and three devices.
const START = `set -e
root=$1; shift
mount --bind "$root" "$root"
while [ "$1" != -- ]; do mount --bind "$1" "$root$2"; shift 2; done; shift
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
for device in null zero random urandom; do mount --bind "/dev/$device" "$root/dev/$device"; done
[ "$LOOPBACK" != up ] || ip link set lo up
mount -o remount,bind,ro "$root"
exec env -i "$@"`;

/** The files of an image in a folder, from which containers are started without any tool for containers. Needs root on Linux. */
export class UnpackedImage {
  readonly config: StoredConfig;
  readonly folder: string;
  readonly #root: string;
  readonly #running = new Set<Program>();

  private constructor(folder: string, config: StoredConfig) {
    this.folder = folder;
    this.config = config;
    this.#root = join(folder, "root");
  }

  /** Unpacks the archive the way every tool does: by its index, layer upon layer. */
  static unpack(archive: string): UnpackedImage {
    const folder = mkdtempSync(join(tmpdir(), "sallyport-image-"));
    const tar = (...args: string[]) => {
      const { status, stderr } = spawnSync("tar", args, { encoding: "utf8" });
      if (status !== 0) throw new Error(`tar ${args.join(" ")} failed: ${stderr}`);
    };
    tar("-xf", archive, "-C", folder);
    const blob = (digest: string) => join(folder, "blobs", digest.replace(":", "/"));
    const read = (path: string) => JSON.parse(readFileSync(path, "utf8"));
    const manifest = read(blob(read(join(folder, "index.json")).manifests[0].digest));
    const root = join(folder, "root");
    for (const path of ["proc", "dev"]) mkdirSync(join(root, path), { recursive: true });
    for (const layer of manifest.layers) tar("-xpzf", blob(layer.digest), "--same-owner", "-C", root);
    for (const device of ["null", "zero", "random", "urandom"]) spawnSync("touch", [join(root, "dev", device)]);
    return new UnpackedImage(folder, read(blob(manifest.config.digest)).config);
  }

  /** Every path of the image. */
  paths(): string[] {
    const mountPoints = /^\/(proc|dev)(\/|$)/;
    return readdirSync(this.#root, { recursive: true })
      .map((path) => `/${String(path)}`)
      .filter((path) => !mountPoints.test(path));
  }

  stat(path: string): Stats {
    return lstatSync(join(this.#root, path));
  }

  isLink(path: string): boolean {
    return this.stat(path).isSymbolicLink();
  }

  /** Regular files that can be started. */
  executables(): string[] {
    return this.paths().filter((path) => this.stat(path).isFile() && (this.stat(path).mode & 0o111) !== 0);
  }

  read(path: string): string {
    return readFileSync(join(this.#root, path), "utf8");
  }

  /** Starts a container; it is stopped by signals to its first process (`signalTo`), and killed with the program. */
  start(options: RunOptions = {}): Program {
    const name = this.config.Labels["dev.sallyport.program"] ?? "container";
    const program = new Program({ name, ...this.#command(options) });
    this.#running.add(program);
    void program.exited.then(() => this.#running.delete(program));
    return program;
  }

  /** Runs a container to its end. */
  run(options: RunOptions = {}): Ended {
    const { command, args, env } = this.#command(options);
    const { status, stdout, stderr, error } = spawnSync(command, args, {
      encoding: "utf8",
      env,
      timeout: MAX_RUN_MS,
      killSignal: "SIGKILL",
    });
    if (error !== undefined) throw error;
    return { status, output: stdout, errors: stderr };
  }

  #command(options: RunOptions): { command: string; args: string[]; env: Record<string, string> } {
    const { Entrypoint, Cmd, Env, User, WorkingDir } = this.config;
    const mounts = Object.entries(options.mounts ?? {}).flatMap(([inside, outside]) => {
      mkdirSync(join(this.#root, inside), { recursive: true });
      return [outside, inside];
    });
    const env = [...Env, ...Object.entries(options.env ?? {}).map(([name, value]) => `${name}=${value}`)];
    const [uid = "", gid = uid] = (options.user ?? User).split(":");
    const inside = ["unshare", `--root=${this.#root}`, `--wd=${WorkingDir}`, `--setgid=${gid}`, `--setuid=${uid}`];
    const command = [...(options.entrypoint ?? Entrypoint), ...(options.args ?? Cmd)];
    const namespaces = ["--mount", "--pid", "--fork", "--kill-child", ...(options.isolated ? ["--net"] : [])];
    return {
      command: "unshare",
      args: [
        ...[...namespaces, "--propagation", "private", "sh", "-c", START, "container"],
        ...[this.#root, ...mounts, "--", ...env, ...inside, ...command],
      ],
      env: { PATH: `${process.env.PATH}:/usr/sbin:/sbin`, LOOPBACK: options.isolated ? "up" : "" },
    };
  }

  /** Ends what still runs, and removes the files. */
  async remove(): Promise<void> {
    for (const program of this.#running) {
      program.signal("SIGKILL");
      await program.exited;
    }
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Process number, here, of the first process of a container; undefined until it is there and after it. */
export function firstProcess(container: Program): number | undefined {
  try {
    const text = readFileSync(`/proc/${container.pid}/task/${container.pid}/children`, "utf8");
    return Number(text.trim().split(" ")[0]) || undefined;
  } catch {
    return undefined;
  }
}

/** What `docker stop` and a kubelet do. */
export function signalTo(container: Program, signal: NodeJS.Signals): void {
  const pid = firstProcess(container);
  try {
    if (pid !== undefined) process.kill(pid, signal);
  } catch (error) {
    // It may have ended since its number was read.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Why containers cannot be started here. */
export function obstacle(): string | undefined {
  if (process.platform !== "linux") return `images are for Linux, and this is ${process.platform}`;
  if (process.getuid?.() !== 0) return "only root may start containers without a tool";
  const { status, stderr, error } = spawnSync("unshare", ["--mount", "--pid", "--net", "--fork", "true"], {
    encoding: "utf8",
  });
  return status === 0 ? undefined : `no namespaces can be made here: ${error?.message ?? stderr.trim()}`;
}
