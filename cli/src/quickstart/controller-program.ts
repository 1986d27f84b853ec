/** The controller of a quick start. */
import { existsSync } from "node:fs";
import { CommandError } from "../errors.ts";
import { accepts, isLoopback } from "./addresses.ts";
import { setKeys } from "./file-keys.ts";
import type { NetworkState } from "./network-state.ts";
import type { Places } from "./places.ts";
import { type RunOptions, runToEnd } from "./programs/run-to-end.ts";
import { SupervisedProgram } from "./programs/supervised-program.ts";

/** What the user's environment says of other controllers. */
const FOREIGN = ["SECRET_KEY", "ADMIN_USERNAME", "ADMIN_USERNAME_FILE", "ADMIN_PASSWORD"].map(
  (name) => `SALLYPORT_${name}`,
);

export const ADMINISTRATOR = "admin";

/** Makes keys, database and administrator, unless an earlier run has. What that has begun is finished. */
export async function initController(state: NetworkState, places: Places, setup: RunOptions): Promise<void> {
  const { controllerFolder, controllerFile, passwordFile, env, programs } = places;
  // The program writes it last.
  if (!existsSync(controllerFile)) {
    const port = String(state.controllerPort);
    const ports = ["--api-port", port, "--ctrl-port", port];
    const args = ["init", "--dir", controllerFolder, "--host", state.host, ...ports];
    const own = { ...ownEnvironment(env), SALLYPORT_ADMIN_PASSWORD_FILE: passwordFile };
    await runToEnd([...programs.controller, ...args], { ...setup, env: own });
  }
  const bind = `127.0.0.1:${state.controllerPort}`;
  await setKeys(
    controllerFile,
    isLoopback(state.host)
      ? [
          [["api", "bind"], bind],
          [["ctrl", "bind"], bind],
        ]
      : // The router has the host of the controller.
        [[["edge", "enrollment", "sharedHosts"], [state.host]]],
  );
}

/** SHA-256 of the authority, as the program on this machine says it. */
export async function fingerprint({ programs, controllerFile, env }: Places, setup: RunOptions): Promise<string> {
  const command = [...programs.controller, "pki", "status", controllerFile] as const;
  const said = await runToEnd(command, { ...setup, env: ownEnvironment(env) });
  const [, found] = /SHA-256 ([0-9A-F:]{95})/.exec(said) ?? [];
  if (found !== undefined) return found;
  throw new CommandError(
    "'sallyport-controller pki status' named no authority: is it of the same version as sallyport?",
  );
}

/** Starts the controller; resolves when it listens. */
export async function startController(
  state: NetworkState,
  places: Places,
  stop: AbortSignal,
  started: (program: SupervisedProgram) => void,
): Promise<void> {
  const { controllerFolder, controllerFile, env, programs, logFile, pidFile } = places;
  const options = {
    name: "controller",
    command: [...programs.controller, "run", controllerFile] as const,
    env: ownEnvironment(env),
    cwd: controllerFolder,
    logFile: logFile("controller"),
    pidFile: pidFile("controller"),
  };
  const program = await SupervisedProgram.start(options, stop);
  started(program);
  await program.ready(async () => await accepts("127.0.0.1", state.controllerPort), stop);
}

function ownEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !FOREIGN.includes(name)));
}
