import { readFileSync } from "node:fs";

const ESTABLISHED = "01";

/**
 * How many ends of the TCP connections from or to a port wait for an answer to what they sent again: something that was lost
 * has not come through yet. In the network namespace of this process, IPv4. Source: /proc/net/tcp, whose columns the kernel's
 * `get_tcp4_sock` writes.
 */
export function endsUnderRepair(port: number): number {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const [, ...rows] = readFileSync("/proc/net/tcp", "utf8").trim().split("\n");
  return rows.filter((row) => {
    const [, local, remote, state, , , retransmits, , probes] = row.trim().split(/\s+/);
    if (state !== ESTABLISHED || !(local?.endsWith(suffix) || remote?.endsWith(suffix))) return false;
    // What the packet filter drops before it has left counts as a probe.
    return Number.parseInt(retransmits ?? "", 16) > 0 || Number(probes) > 0;
  }).length;
}
