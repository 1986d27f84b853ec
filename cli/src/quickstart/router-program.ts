/** The router of a quick start. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { makeFolder } from "@sallyport/program/make-folder";
import type { ApiCaller } from "../network/api-caller.ts";
import { removeOwn, writeOwn } from "../network/own-files.ts";
import { isLoopback } from "./addresses.ts";
import { setKeys } from "./file-keys.ts";
import { isRouterOnline, ROUTER, routerToken } from "./network-entities.ts";
import type { NetworkState } from "./network-state.ts";
import type { Places } from "./places.ts";
import { type RunOptions, runToEnd } from "./run-to-end.ts";
import { SupervisedProgram } from "./supervised-program.ts";

const FILE = "router.yml";
const TOKEN = "router.jwt";

/** Writes the router's file and enrolls the router, unless an earlier run has. */
export async function enrollRouter(
  state: NetworkState,
  { routerFolder, programs, env, setupPidFile: pidFile }: Places,
  caller: ApiCaller,
  stop: AbortSignal,
): Promise<void> {
  const options = { env, signal: stop, cwd: routerFolder, pidFile };
  const [file, token] = [join(routerFolder, FILE), join(routerFolder, TOKEN)];
  await makeFolder(routerFolder, 0o700);
  if (!existsSync(file)) await writeOwn(file, await configuration(state, programs.router, options));
  // It is removed last.
  if (existsSync(join(routerFolder, `${ROUTER}.cert`)) && !existsSync(token)) return;
  await writeOwn(token, await routerToken(caller));
  await runToEnd(
    [...programs.router, "enroll", FILE, "--if-needed", "--jwt", TOKEN, "--configured-endpoints"],
    options,
  );
  await removeOwn(token);
}

async function configuration(
  { host, controllerPort, routerPort }: NetworkState,
  router: Places["programs"]["router"],
  options: RunOptions,
): Promise<string> {
  const port = String(routerPort);
  const ports = ["--port", port, "--link-port", port];
  const controller = ["--controller", `tls:localhost:${controllerPort}`];
  const command = [...router, "create-config", ROUTER, ...controller, "--host", host, ...ports] as const;
  return await runToEnd([...command, "--tunneler-mode", "host"], options);
}

/** Starts the router; resolves when the controller sees it. */
export async function startRouter(
  state: NetworkState,
  { routerFolder, programs, env, logFile, pidFile }: Places,
  caller: ApiCaller,
  stop: AbortSignal,
  started: (program: SupervisedProgram) => void,
): Promise<void> {
  if (isLoopback(state.host)) {
    const bind = `tls:127.0.0.1:${state.routerPort}`;
    await setKeys(join(routerFolder, FILE), [
      [["listeners", 0, "address"], bind],
      [["link", "listeners", 0, "bind"], bind],
    ]);
  }
  const options = {
    name: "router",
    command: [...programs.router, "run", FILE] as const,
    env,
    cwd: routerFolder,
    logFile: logFile("router"),
    pidFile: pidFile("router"),
  };
  const program = await SupervisedProgram.start(options, stop);
  started(program);
  await program.ready(async () => await isRouterOnline(caller), stop);
}
