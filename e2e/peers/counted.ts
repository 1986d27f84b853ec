import type { PeerCli } from "../network/openziti/peer-cli.ts";

/** Payloads that a router took and did not pass on: for circuits that it does not know, for want of room, or malformed ones. */
const DROPPED = ["xgress.edge.dropped_payloads", "xgress.dropped_payloads"] as const;

/** What each router has counted under a name of its metrics, by the router's name. */
export async function counted(cli: PeerCli, name: string): Promise<Record<string, number>> {
  const names = new Map((await cli.listed("edge-routers")).map(({ id, name: called }) => [String(id), String(called)]));
  const found: Record<string, number> = {};
  let router = "";
  let isNamed = false;
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the CLI colours its headings
  for (const line of (await cli.run("fabric", "inspect", "metrics")).replaceAll(/\x1b\[[0-9;]*m/g, "").split("\n")) {
    const heading = /^(\S+)\.metrics\b/.exec(line)?.[1];
    if (heading !== undefined) {
      router = names.get(heading) ?? heading;
      // OpenZiti leaves out what it has not counted yet.
      found[router] = 0;
    }
    if (/^\s*"?[a-z_.]+"?:/.test(line) && !/count/.test(line)) isNamed = line.includes(name);
    const count = isNamed ? /count"?:\s*"?(\d+)/.exec(line)?.[1] : undefined;
    if (count !== undefined) found[router] = Number(count);
  }
  return found;
}

/** How many payloads our routers have dropped since their start, by the name of the meter and the router; empty on a clean path. */
export async function dropped(cli: PeerCli, ownRouters: readonly string[]): Promise<Record<string, number>> {
  const found: Record<string, number> = {};
  for (const meter of DROPPED) {
    const counts = await counted(cli, meter);
    for (const router of ownRouters) {
      const count = counts[router];
      if (count === undefined) throw new Error(`router ${router} did not answer when it was asked for its metrics`);
      if (count > 0) found[`${meter} of ${router}`] = count;
    }
  }
  return found;
}
