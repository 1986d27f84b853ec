import { errorText } from "@sallyport/async";
import { AgentOp, type ApplicationInfo } from "@sallyport/wire/agent/protocol";
import { agentSocketPath, agentSockets, askAgent, isForeign } from "@sallyport/wire/agent/socket";
import type { CheckState } from "../health/health.ts";
import { ROUTER_APPLICATION, RouterRequest } from "./router-request.ts";

/** What a running router says of itself to `sallyport-router status` (docs/router/observability.md, "Status"). */
export interface StatusReport {
  readonly id: string;
  readonly pid: number;
  readonly version: string;
  readonly protocol: string;
  /** ISO 8601. */
  readonly startedAt: string;
  readonly uptimeSeconds: number;
  readonly healthy: boolean;
  readonly checks: readonly CheckState[];
  readonly controllers: readonly ControllerStatus[];
  readonly links: readonly LinkStatus[];
  readonly listeners: readonly ListenerStatus[];
  readonly circuits: number;
  /** Local ends of circuits: of SDKs, tunnels, and addresses that the router dials. */
  readonly circuitEnds: number;
  readonly sdks: number;
  readonly hostedBySdks: number;
  readonly memory: { readonly rssBytes: number; readonly heapBytes: number; readonly externalBytes: number };
  readonly cpuSeconds: number;
}

export interface ControllerStatus {
  readonly address: string;
  readonly connected: boolean;
  readonly id?: string | undefined;
  readonly version?: string | undefined;
  readonly responsive?: boolean | undefined;
  /** Of the last heartbeat; absent before the first. */
  readonly latencyMs?: number | undefined;
}

export interface LinkStatus {
  readonly id: string;
  readonly routerId: string;
  readonly dialed: boolean;
  readonly address: string;
  readonly connections: number;
  /** Mean of the last heartbeats; absent before the first. */
  readonly latencyMs?: number | undefined;
}

export interface ListenerStatus {
  readonly address: string;
  /** `edge`, `link`, `web`, or the name of another binding. */
  readonly kind: string;
  readonly advertise?: string | undefined;
}

/** The status for people: one screen, aligned. */
export function statusText(s: StatusReport): string {
  const connected = s.controllers.filter((controller) => controller.connected).length;
  const text = [
    `router ${s.id}, ${healthText(s)}`,
    ...table([
      ["process", `pid ${s.pid}, up ${durationText(s.uptimeSeconds)}, since ${s.startedAt}`],
      ["version", `${s.version} (protocol ${s.protocol})`],
      [
        "memory",
        `${mib(s.memory.rssBytes)} resident, ${mib(s.memory.heapBytes)} heap, ${mib(s.memory.externalBytes)} buffers`,
      ],
      ["CPU", `${s.cpuSeconds.toFixed(1)} s`],
      ["circuits", `${s.circuits} (${s.circuitEnds} ends here)`],
      ["SDKs", `${s.sdks} connected, ${s.hostedBySdks} terminators hosted`],
    ]),
    "",
    `controllers: ${connected} of ${s.controllers.length} connected`,
    ...table(s.controllers.map((c) => [c.id ?? "-", c.address, c.version ?? "", controllerState(c)])),
    "",
    `links: ${s.links.length}`,
    ...table(
      s.links.map((l) => [
        l.id,
        l.dialed ? "to" : "from",
        l.routerId,
        l.address,
        `${l.connections} connection${l.connections === 1 ? "" : "s"}`,
        latency(l.latencyMs),
      ]),
    ),
    "",
    `listeners: ${s.listeners.length}`,
    ...table(s.listeners.map((l) => [l.kind, l.address, l.advertise === undefined ? "" : `as ${l.advertise}`])),
    "",
  ];
  return text.map(printable).join("\n");
}

/** A check that has not run yet has not failed: the router is still starting. */
function healthText({ healthy, checks }: StatusReport): string {
  if (healthy) return "healthy";
  const failing = checks.filter((check) => !check.healthy);
  const failed = failing.filter((check) => check.hasRun);
  if (failed.length > 0) return `unhealthy: ${failed.map((c) => `${c.id} (${c.error ?? "failing"})`).join(", ")}`;
  return `starting: checks that have not run yet: ${failing.map((c) => c.id).join(", ")}`;
}

/** Text for a terminal: names come from elsewhere, and must not move its cursor. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, "?");
}

/** Rows with columns of one width each, indented. */
function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, cell.length);
  return rows.map((row) => `  ${row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ")}`.trimEnd());
}

function controllerState(c: ControllerStatus): string {
  if (!c.connected) return "not connected";
  return c.responsive === false ? `does not answer, last ${latency(c.latencyMs)}` : latency(c.latencyMs);
}

function latency(ms: number | undefined): string {
  return ms === undefined ? "not measured yet" : `${ms.toFixed(ms < 10 ? 2 : 0)} ms`;
}

function mib(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/** The two largest units: `3d 4h`, `12m 5s`. */
function durationText(seconds: number): string {
  const units = [
    ["d", 86_400],
    ["h", 3_600],
    ["m", 60],
    ["s", 1],
  ] as const;
  const first = units.findIndex(([, length]) => seconds >= length);
  if (first < 0) return "0s";
  let left = Math.floor(seconds);
  const parts: string[] = [];
  for (const [unit, length] of units.slice(first, first + 2)) {
    parts.push(`${Math.floor(left / length)}${unit}`);
    left %= length;
  }
  return parts.join(" ");
}

/** Of an answer that makes no sense. */
const MAX_SAID = 500;

/** There is no status to show; the message says why and what to do. */
export class StatusError extends Error {
  override readonly name = "StatusError";
  readonly code = "NO_STATUS";
}

export interface StatusOptions {
  readonly pid?: number | undefined;
  /** The agent's socket; takes the place of `pid`. */
  readonly socket?: string | undefined;
  readonly json: boolean;
  /** Where sockets are looked for; the system's temporary folder when absent. */
  readonly folder?: string | undefined;
}

/**
 * Asks a running router for its status: the one named, else the only one there is.
 * @returns text for people, or JSON
 * @throws StatusError
 */
export async function status(o: StatusOptions): Promise<string> {
  const socket = o.socket ?? (o.pid === undefined ? await onlyRouter(o.folder) : await socketOf(o.pid, o.folder));
  const found = await statusOf(socket);
  return o.json ? `${JSON.stringify(found, undefined, 2)}\n` : statusText(found);
}

async function socketOf(pid: number, folder: string | undefined): Promise<string> {
  const socket = agentSocketPath(pid, folder);
  if (await isForeign(socket, pid)) throw new StatusError(ofAnother(socket));
  return socket;
}

async function statusOf(socket: string): Promise<StatusReport> {
  let answer: string;
  try {
    answer = (await askAgent(socket, [AgentOp.Application, ROUTER_APPLICATION, RouterRequest.Status])).toString("utf8");
  } catch (cause) {
    throw new StatusError(whyNot(socket, cause), { cause });
  }
  if (!answer.startsWith("{")) {
    const said = answer === "" ? "" : `: ${printable(answer.trim().slice(0, MAX_SAID))}`;
    throw new StatusError(`the process behind ${socket} is no router of this kind${said}`);
  }
  return JSON.parse(answer) as StatusReport;
}

async function onlyRouter(folder: string | undefined): Promise<string> {
  const routers: { readonly pid: number; readonly socket: string; readonly info: ApplicationInfo }[] = [];
  const { own, foreign } = await agentSockets(folder);
  const silent = [...foreign.values()].map(ofAnother);
  for (const [pid, socket] of own) {
    try {
      const info = JSON.parse((await askAgent(socket, [AgentOp.ApplicationInfo])).toString("utf8")) as ApplicationInfo;
      if (info.type === "router") routers.push({ pid, socket, info });
    } catch (error) {
      silent.push(`${whyNot(socket, error)}`);
    }
  }
  const [first, ...others] = routers;
  if (first === undefined) {
    const also = silent.length === 0 ? "" : `\n${silent.join("\n")}`;
    throw new StatusError(
      `no router of this user runs on this machine (start one with: sallyport-router run <router.yml>); in a container, run this inside of it${also}`,
    );
  }
  if (others.length > 0) {
    const list = routers.map(({ pid, info }) => `  --pid ${pid}   router ${printable(info.id ?? "?")}`).join("\n");
    throw new StatusError(`${routers.length} routers run here; name one of them:\n${list}`);
  }
  return first.socket;
}

function ofAnother(socket: string): string {
  return `${socket} belongs to another user; ask as that user or as root`;
}

function whyNot(socket: string, error: unknown): string {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  switch (code) {
    case "ENOENT":
      return `no router listens on ${socket}: there is no such process, or it runs without an agent`;
    case "ECONNREFUSED":
      return `no router listens on ${socket} any more: it has ended`;
    case "EACCES":
    case "EPERM":
      return ofAnother(socket);
    default:
      return `${socket} does not answer: ${errorText(error)}`;
  }
}
