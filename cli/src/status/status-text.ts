/** The state of a network as text, on one screen. */
import { table } from "../output/table.ts";
import { visible } from "../terminal/visible.ts";
import type { LinkStatus, NetworkStatus, Problem, RouterStatus } from "./network-status.ts";
import { span } from "./problems.ts";

/** Rows of a table, so that the whole stays on a screen. */
const MAX_ROWS = 12;
const MAX_ALIKE = 3;
const INDENT = "  ";
const NOTHING = "-";

export interface StatusTextOptions {
  /** Every row. */
  readonly isWide: boolean;
  /** Of the terminal. */
  readonly width: number | undefined;
  readonly emphasis: (text: string) => string;
  readonly now: number;
}

export async function statusText(status: NetworkStatus, options: StatusTextOptions): Promise<string> {
  const { emphasis } = options;
  const parts = [
    `${emphasis(visible(`${status.network}: ${verdict(status.problems)}`))}\n${countsLine(status)}`,
    await rows(["CONTROLLER", "STATE", "HEALTH", "UP", "VERSION", "AT"], controllerRows(status, options), options),
    await rows(["ROUTER", "STATE", "SINCE", "LINKS", "VERSION"], routerRows(status.routers, options), options),
    await rows(["LINK", "", "STATE", "LATENCY", "COST", "PROTOCOL"], linkRows(status.links), options),
    problemLines(status.problems, options),
    unreadLines(status),
  ];
  return parts.filter((part) => part !== "").join("\n");
}

function verdict(problems: readonly Problem[]): string {
  const failed = problems.filter((each) => each.status === "failed").length;
  const warnings = problems.length - failed;
  const parts = [
    failed === 0 ? "nothing fails" : failed === 1 ? "1 thing fails" : `${failed} things fail`,
    ...(warnings === 0 ? [] : [warnings === 1 ? "1 warning" : `${warnings} warnings`]),
  ];
  return parts.join(", ");
}

function countsLine({ counts }: NetworkStatus): string {
  const { identities, services, circuits, apiSessions, sessions } = counts;
  const named = [
    [identities, "identity", "identities"],
    [services, "service", "services"],
    [circuits, "circuit", "circuits"],
    [apiSessions, "API session", "API sessions"],
    [sessions, "session", "sessions"],
  ] as const;
  const known = named.flatMap(([count, one, many]) =>
    count === undefined ? [] : [`${count} ${count === 1 ? one : many}`],
  );
  return known.length === 0 ? "" : `${known.join(", ")}\n`;
}

function controllerRows({ controllers }: NetworkStatus, { now }: StatusTextOptions): string[][] {
  return controllers.map(({ name, isOnline, isHealthy, startedAt, version, url }) => [
    name,
    isOnline ? "online" : "OFFLINE",
    isHealthy === undefined ? NOTHING : isHealthy ? "ok" : "FAILED",
    startedAt === undefined ? NOTHING : span(now - Date.parse(startedAt)),
    version ?? NOTHING,
    url ?? NOTHING,
  ]);
}

function routerRows(routers: readonly RouterStatus[], { now }: StatusTextOptions): string[][] {
  const rank = ({ isOnline, disabled }: RouterStatus): number => (isOnline ? 2 : disabled ? 1 : 0);
  return routers
    .toSorted((a, b) => rank(a) - rank(b))
    .map(({ name, isOnline, isEnrolled, disabled, connectedAt, lastSeenAt, links, version }) => {
      const since = isOnline ? connectedAt : lastSeenAt;
      return [
        name,
        disabled ? "disabled" : isOnline ? "online" : isEnrolled ? "OFFLINE" : "not enrolled",
        since === undefined ? NOTHING : span(now - Date.parse(since)),
        String(links),
        version ?? NOTHING,
      ];
    });
}

function linkRows(links: readonly LinkStatus[]): string[][] {
  const rank = ({ state, down }: LinkStatus): number => (state === "Connected" && !down ? 1 : 0);
  return links
    .toSorted((a, b) => rank(a) - rank(b) || (b.latencyMs ?? 0) - (a.latencyMs ?? 0))
    .map(({ from, to, state, down, latencyMs, cost, protocol }) => [
      from,
      to,
      down ? "DOWN" : state === "Connected" ? "ok" : state.toUpperCase(),
      latencyText(latencyMs),
      String(cost),
      protocol,
    ]);
}

function latencyText(ms: number | undefined): string {
  return ms === undefined ? NOTHING : `${ms < 10 ? ms.toFixed(2) : ms.toFixed(0)} ms`;
}

async function rows(
  headings: readonly string[],
  all: readonly (readonly string[])[],
  { isWide, width, emphasis }: StatusTextOptions,
): Promise<string> {
  if (all.length === 0) return "";
  const shown = isWide ? all : all.slice(0, MAX_ROWS);
  const text = await table(headings, shown, { width: isWide ? undefined : width, heading: emphasis });
  return `${text}${more(all.length - shown.length)}`;
}

function problemLines(problems: readonly Problem[], { isWide, emphasis }: StatusTextOptions): string {
  if (problems.length === 0) return "";
  const shown = isWide ? problems : someOf(problems);
  const lines = shown.flatMap(({ status, subject, message, command }) => [
    visible(`${INDENT}${status === "failed" ? "FAILED" : "warning"}  ${subject}: ${message}`),
    ...(command === undefined ? [] : [`${INDENT}${INDENT}${visible(command)}`]),
  ]);
  return `${emphasis("PROBLEMS")}\n${lines.map((line) => `${line}\n`).join("")}${more(problems.length - shown.length)}`;
}

/** Some of each kind, so that many of one hide no other. */
function someOf(problems: readonly Problem[]): readonly Problem[] {
  const kindOf = ({ status, subject }: Problem) => `${status} ${subject.split(" ", 1)[0]}`;
  const some = new Set([...Map.groupBy(problems, kindOf).values()].flatMap((alike) => alike.slice(0, MAX_ALIKE)));
  return problems.filter((problem) => some.has(problem)).slice(0, MAX_ROWS);
}

function more(count: number): string {
  return count === 0 ? "" : `${INDENT}… and ${count} more: -o wide shows them\n`;
}

function unreadLines({ unread }: NetworkStatus): string {
  return unread.map(({ part, reason }) => `not known: ${visible(`${part}: ${reason}`)}\n`).join("");
}
