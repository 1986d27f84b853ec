/** The results of `ping` as text. */
import { table } from "../output/table.ts";
import { visible } from "../terminal/visible.ts";
import type { CircuitPath } from "./circuit-path.ts";
import type { HopAnswer, HopStatistics, Round } from "./measurement.ts";

const NOTHING = "-";

export interface PingResult {
  readonly service: string;
  readonly instance?: string;
  readonly circuitId: string;
  /** From the dial to the connection, login and router connection included. */
  readonly dialMs: number;
  readonly sent: number;
  readonly answered: number;
  readonly hops: readonly HopStatistics[];
  /** Absent without an administrator's session. */
  readonly path?: CircuitPath;
  /** What is not measured, and why. */
  readonly notes: readonly string[];
}

/** One round in a line, as ping prints it. */
export function roundLine(service: string, sequence: number, round: Round, nameOf: (hop: HopAnswer) => string): string {
  const last = round.hops.at(-1);
  const parts = round.hops
    .slice(0, -1)
    .map((hop) => `${nameOf(hop)} ${hop.milliseconds === undefined ? "?" : timeText(hop.milliseconds)}`);
  const between = parts.length === 0 ? "" : `  (${parts.join(", ")})`;
  const start = `${service}: seq=${sequence}`;
  if (last?.error !== undefined) return `${visible(`${start} stopped at ${nameOf(last)}: ${last.error}`)}\n`;
  if (!round.isComplete || last?.milliseconds === undefined) return `${visible(`${start} no answer${between}`)}\n`;
  return `${visible(`${start} time=${timeText(last.milliseconds)}${between}`)}\n`;
}

export async function resultText(
  { service, sent, answered, dialMs, hops, path, notes }: PingResult,
  options: { readonly width: number | undefined; readonly heading: (line: string) => string },
): Promise<string> {
  const lost = sent === 0 ? 0 : Math.round(((sent - answered) / sent) * 100);
  const over = path === undefined ? "" : ` over ${path.routers.map(({ name }) => name).join(" and ")}`;
  const nameOf = hopNames(path);
  const rows = hops.map((hop) => [
    String(hop.hop),
    nameOf(hop),
    ...[hop.minMs, hop.avgMs, hop.maxMs].map((ms) => (ms === undefined ? NOTHING : timeText(ms))),
    `${hop.sent - hop.answered} of ${hop.sent}`,
  ]);
  const links = (path?.links ?? []).map(({ from, to, latencyMs, cost }) => [
    `${from} – ${to}`,
    latencyMs === undefined ? NOTHING : timeText(latencyMs),
    String(cost),
  ]);
  return [
    `\n${visible(`${service}${over}: ${sent} sent, ${answered} answered, ${lost}% lost; dialled in ${timeText(dialMs)}`)}\n`,
    await table(["HOP", "", "MIN", "AVG", "MAX", "LOST"], rows, options),
    ...(links.length === 0 ? [] : [`\n${await table(["LINK", "MEASURED BY ITS ROUTERS", "COST"], links, options)}`]),
    ...notes.map((note) => `${visible(note)}\n`),
  ].join("");
}

/** What a hop is called: the name of its router, else what it says that it is. */
export function hopNames(path: CircuitPath | undefined) {
  const names = new Map(path?.routers.map(({ id, name }) => [id, name]));
  return ({ hop, type, routerId }: Pick<HopStatistics, "hop" | "type" | "routerId">): string => {
    const router = routerId === undefined ? undefined : (names.get(routerId) ?? routerId);
    if (type === "") return "unknown";
    if (type === "forwarder") return `router ${router ?? ""}`.trim();
    if (type === "xgress/edge")
      return hop === 1 ? `first router${suffix(router)}` : `edge of the last router${suffix(router)}`;
    return `host (${type})`;
  };
}

function suffix(router: string | undefined): string {
  return router === undefined ? "" : ` ${router}`;
}

function timeText(ms: number): string {
  return `${ms < 10 ? ms.toFixed(2) : ms < 100 ? ms.toFixed(1) : ms.toFixed(0)} ms`;
}
