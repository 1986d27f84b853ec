/** What a process does first that has been started in network, mount and process namespaces of its own. */
import { mkdirSync, writeFileSync } from "node:fs";
import type { Addresses } from "./addresses.ts";
import { run } from "./processes.ts";

/**
 * What programs of a node write to fixed places is seen by no other process, and ends with them.
 *
 * @param kept paths that are still needed
 */
export async function hideMachine(kept: readonly string[]): Promise<void> {
  await run("mount", "--make-rshared", "/");
  for (const place of ["/run", "/var/lib", "/var/log"]) {
    if (kept.some((path) => path.startsWith(`${place}/`)))
      throw new Error(`${place} becomes empty in the cluster, so none of these may lie in it: ${kept.join(", ")}`);
    await run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", place);
  }
  mkdirSync("/var/lib/cni");
  mkdirSync("/run/lock");
}

/** The end of the cable to the machine becomes the way out. */
export async function takeCable(addresses: Addresses): Promise<void> {
  await run("ip", "link", "set", "lo", "up");
  await run("ip", "addr", "add", `${addresses.box}/30`, "dev", "eth0");
  await run("ip", "link", "set", "eth0", "up");
  await run("ip", "route", "add", "default", "via", addresses.machine);
}

/** Packets that are for others are passed on. */
export function passOn(): void {
  writeFileSync("/proc/sys/net/ipv4/ip_forward", "1");
}
