/** Where the programs of a cluster come from, and whether one can be had on this machine at all. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Tools } from "./box/box-plan.ts";

const SCRIPT = join(import.meta.dirname, "..", "..", "scripts", "install-tools.sh");
const NAMES = ["containerd", "nft", "pod", "etcd", "coredns", "kubernetes"] as const satisfies readonly (keyof Tools)[];
/** The tools as JSON, for the processes of a run: they are looked for once. */
const FOUND = "SALLYPORT_CLUSTER_TOOLS";
/** Why there can be no cluster, for the same. */
const OBSTACLE = "SALLYPORT_NO_CLUSTER";

/** No cluster can be had on this machine; the message says why. */
export class NoClusterError extends Error {
  constructor(reason: string) {
    super(reason);
    this.name = "NoClusterError";
  }
}

/**
 * The programs of a cluster, built or fetched the first time: that takes minutes.
 *
 * @throws NoClusterError when this machine cannot have a cluster
 */
export function findTools(): Tools {
  const found = process.env[FOUND];
  if (found !== undefined) return JSON.parse(found) as Tools;
  const known = process.env[OBSTACLE] ?? obstacle();
  if (known !== undefined) {
    process.env[OBSTACLE] = known;
    throw new NoClusterError(known);
  }
  try {
    const tools = Object.fromEntries(NAMES.map((name) => [name, installTool(name)])) as Record<keyof Tools, string>;
    process.env[FOUND] = JSON.stringify(tools);
    return tools;
  } catch (error) {
    if (error instanceof NoClusterError) process.env[OBSTACLE] = error.message;
    throw error;
  }
}

/** Where a tool is, built or fetched the first time. @throws NoClusterError when this machine cannot have it */
export function installTool(name: string): string {
  const path = toolIfAny(name);
  if (path === undefined) throw new NoClusterError(withoutTool(name));
  return path;
}

/** What is said when {@link toolIfAny} gives nothing. */
export const withoutTool = (name: string): string =>
  `${name} cannot be had here: scripts/install-tools.sh ${name} says why`;

/** Where a tool is, built or fetched the first time; undefined when this machine cannot have it. */
export function toolIfAny(name: string): string | undefined {
  const ran = spawnSync(SCRIPT, [name], { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], timeout: 3_600_000 });
  if (ran.status === 3) return undefined;
  if (ran.status !== 0) throw new Error(`scripts/install-tools.sh ${name} failed (exit code ${ran.status})`);
  return ran.stdout.trim();
}

/** What the machine lacks. */
function obstacle(): string | undefined {
  if (process.platform !== "linux") return `a cluster needs Linux, and this is ${process.platform}`;
  if (process.getuid?.() !== 0) return "only root may make the namespaces of a cluster";
  const attempt = spawnSync(
    "setpriv",
    ["--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "ip", "link"],
    {
      encoding: "utf8",
      env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin:/sbin` },
    },
  );
  if (attempt.status !== 0) {
    const why = (attempt.error?.message ?? attempt.stderr).trim().split("\n").at(-1);
    return `no network, mount and process namespaces can be made here: ${why}`;
  }
  if (!existsSync("/proc/sys/net/bridge/bridge-nf-call-iptables"))
    return "the kernel does not show bridged packets to its filters (module br_netfilter is not loaded)";
  return undefined;
}

/** True when the suites that need a cluster can run; `describe.skipIf(!hasCluster)`. Known after `setup.ts`. */
export const hasCluster = process.env[FOUND] !== undefined;
