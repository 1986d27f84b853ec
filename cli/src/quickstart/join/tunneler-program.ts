/** The tunneler of a machine that has joined as an identity. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { pause } from "@sallyport/async";
import { daemonCommand } from "../../daemons.ts";
import { removeOwn, writeOwn } from "../../network/own-files.ts";
import { freePortFrom } from "../addresses.ts";
import { runToEnd } from "../programs/run-to-end.ts";
import { SupervisedProgram } from "../programs/supervised-program.ts";
import { HOSTS_FILE, removeNames } from "./hosts-file.ts";
import { IdentitySession, type ReachableService } from "./identity-session.ts";
import { type JoinedState, writeJoined } from "./joined-state.ts";
import type { Joining } from "./joining.ts";
import type { JoinToken } from "./token.ts";
import { canHavePort, type LocalPort, localPorts, portKey, whyNotIntercepted } from "./way-in.ts";

const IDENTITY = "identity.json";
const TOKEN = "token.jwt";
/** As often as the tunneler asks. */
const REFRESH_MS = 15_000;
const WAIT_MS = 5_000;
const HEALTH_PORT = 20_350;

/** Whether an enrollment has ended with an identity: one that was killed has left a blank file. */
export async function hasIdentity(folder: string): Promise<boolean> {
  const content = await readFile(join(folder, IDENTITY)).catch(() => Buffer.alloc(0));
  return content.some((byte) => byte !== 0);
}

/** @throws CommandError with the reason of the tunneler or of the network */
export async function enrollIdentity({ text }: JoinToken, joining: Joining): Promise<void> {
  const { folder, options, context, setup } = joining;
  const tunnel = daemonCommand("tunnel", options.start, context.env);
  const token = join(folder, TOKEN);
  await writeOwn(token, `${text}\n`);
  try {
    const args = ["enroll", "--jwt", token, "-o", join(folder, IDENTITY), "--if-needed"];
    await runToEnd([...tunnel, ...args], setup);
  } finally {
    await removeOwn(token);
  }
}

/** Runs the tunneler until the signal aborts. @throws CommandError */
export async function runTunneler(state: JoinedState, joining: Joining): Promise<void> {
  const { folder, context, say } = joining;
  const { signal } = context;
  const session = await IdentitySession.open(join(folder, IDENTITY), context, (why) => say(`${why}; trying again`));
  let names = state.names;
  try {
    say(`joined ${state.network} as ${session.name}`);
    const services = await firstServices(session, joining);
    const way = await wayFor(services, state, joining);
    names = [...new Set([...state.names, ...way.names])];
    await writeJoined(folder, { ...state, ports: way.ports, names });
    // Of a run that was killed: the tunneler may give the names other addresses now.
    if (way.isIntercepting) await removeNames(names);
    await startTunneler(way.args, joining);
    for (const line of way.lines) say(line);
    say("Ctrl-C stops it; 'sallyport quickstart --join' goes on without the token");
    await followServices(session, services, way.isIntercepting, joining);
  } finally {
    await session.close();
    if (names.length > 0) await removeNames(names).catch((error: Error) => say(`${HOSTS_FILE}: ${error.message}`));
  }
  if (!signal.aborted) throw new Error("services are followed until the end");
}

/** Waits until there is a service. */
async function firstServices(
  session: IdentitySession,
  { context, say }: Joining,
): Promise<readonly ReachableService[]> {
  for (let isTold = false; ; isTold = true) {
    const services = await session.services();
    if (services.some(({ isDialled, isHosted }) => isDialled || isHosted)) return services;
    if (!isTold) say(`no policy lets ${session.name} reach or host a service yet: waiting for one`);
    await pause(WAIT_MS, context.signal);
    context.signal.throwIfAborted();
  }
}

interface WayIn {
  /** Of the tunneler, after the identity. */
  readonly args: readonly string[];
  readonly isIntercepting: boolean;
  readonly ports: Readonly<Record<string, number>>;
  readonly names: readonly string[];
  /** What the user is told. */
  readonly lines: readonly string[];
}

async function wayFor(
  services: readonly ReachableService[],
  state: JoinedState,
  { options, context }: Joining,
): Promise<WayIn> {
  const dialled = services.filter(({ isDialled }) => isDialled);
  const obstacle = options.isIntercepting === false ? "--no-intercept" : whyNotIntercepted(context.env);
  const hosted = [...hostedLines(services)];
  const common = { ports: state.ports, names: [], isIntercepting: false };
  if (obstacle === undefined) {
    const lines = dialled.map((service) => `${service.name} is at ${placesOf(service)}`);
    const names = dialled.flatMap(({ hostNames }) => hostNames);
    const args = ["run", "--resolver", HOSTS_FILE];
    return { ...common, args, names, isIntercepting: true, lines: [...lines, ...hosted] };
  }
  const named = dialled.filter(canHavePort);
  const nameless = dialled.filter((service) => !canHavePort(service));
  hosted.push(
    ...nameless.map(({ name }) => `'${name}' gets no port: a colon or a blank in its name cannot stand there`),
  );
  if (named.length === 0) return { ...common, args: ["host"], lines: hosted };
  const ports = await localPorts(named, state.ports);
  const lines = ports.map(
    ({ service, protocol, port }) => `${service} is at localhost:${port}${protocol === "udp" ? " (UDP)" : ""}`,
  );
  return {
    ...common,
    args: ["proxy", "--", ...ports.map(({ service, protocol, port }) => `${service}:${port}:${protocol}`)],
    ports: { ...state.ports, ...Object.fromEntries(ports.map(keyed)) },
    lines: [...lines, ...hosted],
  };
}

const keyed = ({ service, protocol, port }: LocalPort) => [portKey(service, protocol), port] as const;

function placesOf({ hostNames, port, name }: ReachableService): string {
  return hostNames.length === 0
    ? `the addresses of its config (sallyport describe service ${name})`
    : `${hostNames.join(", ")}, port ${port}`;
}

async function startTunneler([mode = "", ...args]: readonly string[], joining: Joining): Promise<void> {
  const { folder, options, context, watch } = joining;
  const health = await freePortFrom(HEALTH_PORT);
  const identity = ["-i", join(folder, IDENTITY), "--health-address", `127.0.0.1:${health}`];
  const program = await SupervisedProgram.start(
    {
      name: "tunneler",
      command: [...daemonCommand("tunnel", options.start, context.env), mode, ...identity, ...args],
      env: context.env,
      cwd: folder,
      logFile: join(folder, "tunneler.log"),
      pidFile: join(folder, "tunneler.pid"),
    },
    context.signal,
  );
  watch(program);
  await program.ready(async () => await isReady(health, context.signal), context.signal);
}

async function isReady(port: number, signal: AbortSignal): Promise<boolean> {
  return (await fetch(`http://127.0.0.1:${port}/health-checks/ready`, { signal })).status === 200;
}

/** A policy opens places of this machine to the network, and its user should see which. */
function hostedLines(services: readonly ReachableService[]): Set<string> {
  const lines = services
    .filter(({ isHosted }) => isHosted)
    .map(({ name, hostedPlaces: places }) => `hosts ${name}${places.length === 0 ? "" : `, at ${places.join(", ")}`}`);
  return new Set(lines);
}

/** Tells of services that come and go. */
async function followServices(
  session: IdentitySession,
  first: readonly ReachableService[],
  isIntercepting: boolean,
  { context: { signal }, say }: Joining,
): Promise<void> {
  let known = namesOf(first);
  let hosted = hostedLines(first);
  for (;;) {
    await pause(REFRESH_MS, signal);
    if (signal.aborted) return;
    // A controller that is away for some time ends no connection.
    const services = await session.services().catch(() => undefined);
    if (services === undefined) continue;
    const names = namesOf(services);
    for (const name of names.difference(known)) {
      const service = services.find((each) => each.name === name);
      const place =
        service !== undefined && isIntercepting ? `is at ${placesOf(service)}` : "gets a port at the next start";
      say(`there is a new service: ${name} ${place}`);
    }
    for (const name of known.difference(names)) say(`${name} is no longer for this machine`);
    known = names;
    const lines = hostedLines(services);
    for (const line of lines.difference(hosted)) say(`from now on this machine ${line}`);
    for (const line of hosted.difference(lines)) say(`no longer ${line}`);
    hosted = lines;
  }
}

function namesOf(services: readonly ReachableService[]): Set<string> {
  return new Set(services.filter(({ isDialled }) => isDialled).map(({ name }) => name));
}
