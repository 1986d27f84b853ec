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
import { type RunOptions, runToEnd } from "./programs/run-to-end.ts";
import { SupervisedProgram } from "./programs/supervised-program.ts";
import { routerFile } from "./router-file.ts";

const FILE = "router.yml";
const TOKEN = "router.jwt";

/** Writes the router's file and enrolls the router, unless an earlier run has. */
export async function enrollRouter(
  { host, controllerPort, routerPort }: NetworkState,
  { routerFolder, programs }: Places,
  caller: ApiCaller,
  setup: RunOptions,
): Promise<void> {
  const options = { ...setup, cwd: routerFolder };
  const [file, token] = [join(routerFolder, FILE), join(routerFolder, TOKEN)];
  await makeFolder(routerFolder, 0o700);
  if (!existsSync(file)) {
    const place = { name: ROUTER, controller: `tls:localhost:${controllerPort}`, host, port: routerPort };
    await writeOwn(file, await routerFile(programs.router, place, options));
  }
  // It is removed last.
  if (existsSync(join(routerFolder, `${ROUTER}.cert`)) && !existsSync(token)) return;
  await writeOwn(token, await routerToken(caller));
  await runToEnd(
    [...programs.router, "enroll", FILE, "--if-needed", "--jwt", TOKEN, "--configured-endpoints"],
    options,
  );
  await removeOwn(token);
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
