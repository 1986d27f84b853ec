import { errorText } from "@sallyport/async";
import { AgentOp, type ApplicationInfo } from "@sallyport/wire/agent/protocol";
import { agentSocketPath, agentSockets, askAgent, isForeign } from "@sallyport/wire/agent/socket";
import { ROUTER_APPLICATION, RouterRequest } from "./router-request.ts";
import { printable, type StatusReport, statusText } from "./status.ts";

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
