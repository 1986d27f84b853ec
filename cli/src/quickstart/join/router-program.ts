/** The router of a machine that has joined as an edge router. */
import { join } from "node:path";
import { pause, untilAborted } from "@sallyport/async";
import { formatAddress } from "@sallyport/wire";
import { daemonCommand } from "../../daemons.ts";
import { CommandError, UsageError } from "../../errors.ts";
import { removeOwn, writeOwn } from "../../network/own-files.ts";
import { accepts, freePortFrom, ownAddress, whyNotFree } from "../addresses.ts";
import { earlierProgram } from "../programs/earlier-program.ts";
import { runToEnd } from "../programs/run-to-end.ts";
import { SupervisedProgram } from "../programs/supervised-program.ts";
import { routerFile } from "../router-file.ts";
import type { JoinedState } from "./joined-state.ts";
import type { Joining, JoinOptions } from "./joining.ts";
import type { JoinToken } from "./token.ts";

const FILE = "router.yml";
const TOKEN = "router.jwt";
const LOG = "router.log";
const PID = "router.pid";
const NAME = "router";
const PORT = 3022;
const ASK_MS = 1_000;

interface RouterPlace {
  readonly host: string;
  readonly routerPort: number;
}

/** Where others will reach the router. @throws CommandError for a port that cannot be used */
export async function routerPlace(before: JoinedState | undefined, { options }: Joining): Promise<RouterPlace> {
  const { host = before?.host, routerPort = before?.routerPort } = options;
  const why = routerPort === undefined ? undefined : await whyNotFree(routerPort);
  if (why !== undefined) throw new CommandError(`--router-port ${routerPort} cannot be used: ${why}`);
  return { host: host ?? (await ownAddress()), routerPort: routerPort ?? (await freePortFrom(PORT)) };
}

/** The router's certificate names its host. @throws UsageError where the options say something else than at the first run */
export function checkSamePlace(before: JoinedState, { host, routerPort }: JoinOptions): void {
  if (before.kind !== "router" && (host !== undefined || routerPort !== undefined))
    throw new UsageError("--host and --router-port are for edge routers, and this machine has joined as an identity");
  const isOther =
    (host !== undefined && host !== before.host) || (routerPort !== undefined && routerPort !== before.routerPort);
  if (!isOther) return;
  throw new UsageError(
    `this router has joined as ${before.host}, port ${before.routerPort}: omit --host and --router-port, or join with a new token and --dir DIR`,
  );
}

/** @throws CommandError with the reason of the router or of the network */
export async function enrollRouter(
  { text, controllers, network }: JoinToken,
  state: JoinedState,
  { folder, options, context, setup }: Joining,
): Promise<void> {
  const router = daemonCommand("router", options.start, context.env);
  const run = { ...setup, cwd: folder };
  // One of an earlier run may have another host or port.
  const [controller = `tls:${new URL(network).host}`] = controllers;
  const place = { name: NAME, controller, host: state.host ?? "", port: state.routerPort ?? 0 };
  await writeOwn(join(folder, FILE), await routerFile(router, place, run));
  const token = join(folder, TOKEN);
  await writeOwn(token, `${text}\n`);
  try {
    await runToEnd([...router, "enroll", FILE, "--if-needed", "--jwt", TOKEN], run);
  } finally {
    await removeOwn(token);
  }
}

/** Runs the router until the signal aborts. @throws CommandError */
export async function runRouter({ host = "", routerPort = 0, network }: JoinedState, joining: Joining): Promise<void> {
  const { folder, options, context, watch, say } = joining;
  const { signal } = context;
  const [logFile, pidFile] = [join(folder, LOG), join(folder, PID)];
  const why = (await earlierProgram(pidFile)) === undefined ? await whyNotFree(routerPort) : undefined;
  if (why !== undefined)
    throw new CommandError(`the router has port ${routerPort}, and ${why}: stop that program first`);
  const command = [...daemonCommand("router", options.start, context.env), "run", FILE] as const;
  const start = { name: "router", command, env: context.env, cwd: folder, logFile, pidFile };
  const program = await SupervisedProgram.start(start, signal);
  watch(program);
  await program.ready(async () => await accepts("127.0.0.1", routerPort), signal);
  say(`router of ${network} listens at ${formatAddress({ protocol: "tls", host, port: routerPort })}`);
  await connected(program, joining);
  say("Ctrl-C stops it; 'sallyport quickstart --join' goes on without the token");
  await untilAborted(signal);
}

/** Waits for a controller, which may be away for some time. */
async function connected(program: SupervisedProgram, { options, context, setup, say }: Joining): Promise<void> {
  const { env, signal } = context;
  const status = [...daemonCommand("router", options.start, env), "status", "--json", "--pid"] as const;
  for (let isTold = false; ; isTold = true) {
    const text = await runToEnd([...status, String(program.pid)], setup).catch(() => "{}");
    signal.throwIfAborted();
    const { controllers = [] } = JSON.parse(text) as { controllers?: { connected: boolean; address: string }[] };
    const controller = controllers.find((each) => each.connected);
    if (controller !== undefined) return say(`connected to the controller at ${controller.address}`);
    if (!isTold) say("no controller is connected yet: waiting for one");
    await pause(ASK_MS, signal);
  }
}
