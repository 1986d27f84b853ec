import type { PortRange, Protocol } from "../interceptor.ts";
import { formatIp, formatRange, type IpFamily, type IpRange, widthOf, withoutContained } from "../ip-range.ts";
import { type Intercept, mergePorts } from "./intercept-set.ts";

/** Where the listeners of the tunneler are: 127.0.0.1 and ::1. A family or protocol without one is not intercepted. */
export type ListenerPorts = Readonly<Record<Protocol, Readonly<Partial<Record<IpFamily, number>>>>>;

export interface RuleOptions {
  readonly table: string;
  readonly listeners: ListenerPorts;
  /** Interface whose clients are let in even where the host's input is closed otherwise. */
  readonly lanIf?: string | undefined;
}

interface RuleGroup {
  readonly protocol: Protocol;
  readonly family: IpFamily;
  readonly ports: readonly PortRange[];
  readonly sources: readonly IpRange[];
  readonly destinations: IpRange[];
}

/**
 * The whole table as text for `nft -f -`, in the place of a former one: one transaction, so there is no moment without rules.
 * Intercepts with the same ports and sources share a rule, as packets pass the rules one after the other; which service
 * a connection belongs to is decided when it has been accepted.
 */
export function renderRules(intercepts: Iterable<Intercept>, options: RuleOptions): string {
  const { table, listeners, lanIf } = options;
  const capture: string[] = [];
  const admit: string[] = [];
  for (const group of groupsOf(intercepts)) {
    const port = listeners[group.protocol][group.family];
    if (port === undefined) continue;
    const match = matchOf(group);
    const to = group.family === 4 ? `ip to 127.0.0.1:${port}` : `ip6 to [::1]:${port}`;
    capture.push(`${match} tproxy ${to} accept`);
    if (lanIf !== undefined) admit.push(`iifname "${lanIf}" ${match} accept`);
  }
  const chain = (name: string, hook: string, rules: readonly string[]): string =>
    `  chain ${name} {\n    type filter hook ${hook}; policy accept;\n${rules.map((rule) => `    ${rule}\n`).join("")}  }\n`;
  return [
    deleteRules(table),
    `table inet ${table} {\n`,
    chain("intercept", "prerouting priority mangle", capture),
    lanIf === undefined ? "" : chain("admit", "input priority filter", admit),
    "}\n",
  ].join("");
}

/** Removes the table, whether it is there or not. */
export function deleteRules(table: string): string {
  return `table inet ${table}\ndelete table inet ${table}\n`;
}

function groupsOf(intercepts: Iterable<Intercept>): RuleGroup[] {
  const groups = new Map<string, RuleGroup>();
  for (const intercept of intercepts) {
    const ports = mergePorts(intercept.ports);
    for (const protocol of intercept.protocols) {
      for (const family of [4, 6] as const) {
        const destinations = intercept.ranges.filter((range) => range.family === family);
        const sources = withoutContained(intercept.sources.filter((range) => range.family === family));
        // Clients are restricted, and none of them has an address of this family.
        const isNobody = intercept.sources.length > 0 && sources.length === 0;
        if (destinations.length === 0 || isNobody) continue;
        const key = JSON.stringify([protocol, family, ports, sources.map(formatRange)]);
        const group = groups.get(key) ?? { protocol, family, ports, sources, destinations: [] };
        groups.set(key, group);
        group.destinations.push(...destinations);
      }
    }
  }
  return [...groups.values()];
}

function matchOf(group: RuleGroup): string {
  const ip = group.family === 4 ? "ip" : "ip6";
  const ports = group.ports.map(({ low, high }) => (low === high ? `${low}` : `${low}-${high}`));
  return [
    ...(group.sources.length > 0 ? [`${ip} saddr ${setOf(group.sources)}`] : []),
    `${ip} daddr ${setOf(withoutContained(group.destinations))}`,
    `${group.protocol} dport { ${ports.join(", ")} }`,
  ].join(" ");
}

function setOf(ranges: readonly IpRange[]): string {
  const texts = ranges.map((r) => (r.length === widthOf(r.family) ? formatIp(r.family, r.base) : formatRange(r)));
  return `{ ${texts.join(", ")} }`;
}
