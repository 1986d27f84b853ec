/** A network of this machine that stays: controller, router, policies, and services of programs beside them. */
import { untilAborted } from "@sallyport/async";
import { formatHostPort } from "@sallyport/wire";
import type { CommandContext } from "../context.ts";
import { CommandError, UsageError } from "../errors.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import { withNetwork } from "../network/open-network.ts";
import { settingsFolder } from "../network/own-files.ts";
import { accepts, checkLeadsHere, freePortFrom, ownAddress } from "./addresses.ts";
import { ensurePassword, saveLogin } from "./administrator.ts";
import { initController, startController } from "./controller-program.ts";
import type { Exposure, ServedFolder } from "./exposure.ts";
import { HeldPorts } from "./held-ports.ts";
import {
  ensureMachine,
  ensurePolicies,
  ensureRouter,
  ensureService,
  MACHINES,
  machineToken,
  services,
} from "./network-entities.ts";
import { type NetworkState, readState, STATE_FILE, writeState } from "./network-state.ts";
import { type Places, placesIn } from "./places.ts";
import { earlierProgram } from "./programs/earlier-program.ts";
import { type FolderRun, runInFolder } from "./programs/folder-run.ts";
import type { SupervisedProgram } from "./programs/supervised-program.ts";
import { enrollRouter, startRouter } from "./router-program.ts";
import { checkFolder, exposureOfFolder, SERVED_PORT, serveFolder } from "./served-folder.ts";
import { showSummary } from "./summary.ts";

export interface QuickstartOptions {
  readonly folder: string;
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly routerPort?: number | undefined;
  readonly exposures: readonly Exposure[];
  readonly served: readonly ServedFolder[];
  /** Tokens are shown as QR codes, too. */
  readonly isQr: boolean;
  /** Folder for the tokens of further machines. */
  readonly tokenFolder: string;
  /** The file by which this program was started. */
  readonly start: string;
}

const CONTROLLER_PORT = 1280;
const ROUTER_PORT = 3022;

/**
 * Makes the network or goes on with it, and runs it until a signal stops this program.
 *
 * @throws CommandError, ApiError
 */
export async function quickstart(options: QuickstartOptions, context: CommandContext): Promise<void> {
  const { folder, start } = options;
  const places = placesIn(folder, start, context.env);
  // Where the login is saved in the end.
  settingsFolder(context.env);
  // As root, the database runs as another user, who has to reach its own folder.
  const mode = process.getuid?.() === 0 ? 0o711 : 0o700;
  // Only a network that is complete is stopped without an error.
  const unfinished = "stopped before the network was complete: run the command again to go on";
  await runInFolder({ folder, mode, firstFile: STATE_FILE, unfinished }, context, async (run) => {
    for (const each of options.served) await checkFolder(each);
    await runNetwork(options, places, run);
  });
}

async function runNetwork(
  options: QuickstartOptions,
  places: Places,
  { context, setup, say, watch, atEnd }: FolderRun,
): Promise<void> {
  const { signal: stop } = context;
  const started = (program: SupervisedProgram): void => watch(program, `; ${places.logFile(program.name)}`);
  const before = await readState(places.folder);
  // Two runs that begin at the same moment choose different ports.
  const ports = new HeldPorts();
  atEnd(() => void ports.releaseAll());
  const state = before === undefined ? await newState(options, places, ports) : kept(before, options);
  say(`${before === undefined ? "new network" : "network"} in ${places.folder}, for others at ${state.host}`);
  const { host } = state;
  await ensurePassword(places);
  await checkPorts(state, places, ports);
  if (before !== undefined) await warnOfHost(before, places, ports, say);
  await initController(state, places, setup);
  await ports.release(state.controllerPort);
  await startController(state, places, stop, started);
  say(`controller ready at https://${formatHostPort({ host, port: state.controllerPort })}`);
  const network = await saveLogin(state, places, setup, context);
  await withNetwork(network, context, async ({ caller }) => {
    if (!state.isComplete) await complete(caller);
    const served = await servedNow(state, options, caller);
    for (const { port, ...folder } of served) {
      const server = await serveFolder(folder, port);
      atEnd(() => server.close().closeAllConnections());
    }
    const ofFolders = served.map(({ name, port }) => exposureOfFolder(name, port));
    for (const exposure of [...options.exposures, ...ofFolders]) await ensureService(exposure, caller);
    await enrollRouter(state, places, caller, setup);
    await ports.release(state.routerPort);
    await startRouter(state, places, caller, stop, started);
    say(`router ready at tls:${formatHostPort({ host, port: state.routerPort })}`);
    await writeState(places.folder, { ...state, served, isComplete: true });
    const tokens = [];
    for (const machine of MACHINES) tokens.push(await machineToken(machine, caller));
    const summary = {
      ...{ network, places, tokenFolder: options.tokenFolder, isQr: options.isQr },
      services: await withAnswers(await services(caller)),
      tokens: tokens.filter((token) => token !== undefined),
    };
    await showSummary(summary, context);
  });
  await untilAborted(stop);
}

/** Folders of earlier runs whose service there still is, and those of this run. */
async function servedNow(
  state: NetworkState,
  { served: given, exposures }: QuickstartOptions,
  caller: ApiCaller,
): Promise<NetworkState["served"]> {
  const names = new Set((await services(caller)).map(({ name }) => name));
  const replaced = new Set([...given, ...exposures].map(({ name }) => name));
  const served = state.served.filter(({ name }) => names.has(name) && !replaced.has(name));
  for (const folder of given) {
    const before = state.served.find(({ name }) => name === folder.name);
    const port =
      before?.port ??
      (await freePortFrom(
        SERVED_PORT,
        served.map((each) => each.port),
      ));
    served.push({ ...folder, port });
  }
  return served;
}

/** The entities of a new network. Later runs leave them to the administrator. */
async function complete(caller: ApiCaller): Promise<void> {
  await ensureRouter(caller);
  await ensurePolicies(caller);
  for (const machine of MACHINES) await ensureMachine(machine, caller);
}

async function newState(
  { host, port, routerPort }: QuickstartOptions,
  { folder }: Places,
  ports: HeldPorts,
): Promise<NetworkState> {
  if (port !== undefined && port === routerPort)
    throw new UsageError("--port and --router-port must differ: controller and router are two programs");
  for (const [option, wanted] of [
    ["--port", port],
    ["--router-port", routerPort],
  ] as const) {
    const why = wanted === undefined ? undefined : await ports.hold(wanted);
    if (why !== undefined) throw new CommandError(`${option} ${wanted} cannot be used: ${why}`);
  }
  const state = {
    host: host ?? (await ownAddress()),
    controllerPort: port ?? (await ports.holdFrom(CONTROLLER_PORT)),
    routerPort: routerPort ?? (await ports.holdFrom(ROUTER_PORT)),
    isComplete: false,
    served: [],
  };
  await checkLeadsHere(state.host, state.controllerPort, ports);
  await writeState(folder, state);
  return state;
}

/** What an earlier run has decided; certificates and tokens are for it. @throws CommandError where the options say something else */
function kept(state: NetworkState, { host, port, routerPort, folder }: QuickstartOptions): NetworkState {
  const changes = [
    ["--host", host, state.host],
    ["--port", port, state.controllerPort],
    ["--router-port", routerPort, state.routerPort],
  ] as const;
  for (const [option, wanted, has] of changes) {
    if (wanted === undefined || wanted === has) continue;
    throw new UsageError(
      `the network in ${folder} was made with ${option} ${has}, which its certificates and tokens name: omit ${option}, or make another network with --dir DIR`,
    );
  }
  return state;
}

/** Takes the ports. Programs of an earlier run that was killed may have them; they are stopped later. */
async function checkPorts(state: NetworkState, { pidFile }: Places, ports: HeldPorts): Promise<void> {
  for (const [program, port] of [
    ["controller", state.controllerPort],
    ["router", state.routerPort],
  ] as const) {
    if (ports.has(port) || (await earlierProgram(pidFile(program))) !== undefined) continue;
    const why = await ports.hold(port);
    if (why !== undefined)
      throw new CommandError(`the ${program} of this network has port ${port}, and ${why}: stop that program first`);
  }
}

/** The address of a machine can change, and a name can be given another one. */
async function warnOfHost(
  { host, controllerPort }: NetworkState,
  { pidFile }: Places,
  ports: HeldPorts,
  say: (line: string) => void,
): Promise<void> {
  if ((await earlierProgram(pidFile("controller"))) !== undefined) return;
  await checkLeadsHere(host, controllerPort, ports).catch((error: CommandError) =>
    say(`warning: other machines may not reach this one any more: ${error.message.split(";")[0]}`),
  );
}

async function withAnswers(exposures: readonly Exposure[]) {
  return await Promise.all(
    exposures.map(async (exposure) => ({ ...exposure, answers: await accepts(exposure.host, exposure.port) })),
  );
}
