/** Files of a quick start, and the programs that it runs. */
import { join } from "node:path";
import { daemonCommand } from "../daemons.ts";

export interface Places {
  readonly folder: string;
  readonly controllerFolder: string;
  readonly controllerFile: string;
  readonly passwordFile: string;
  readonly routerFolder: string;
  readonly logFile: (program: string) => string;
  readonly pidFile: (program: string) => string;
  readonly programs: { readonly controller: CommandLine; readonly router: CommandLine };
  readonly env: NodeJS.ProcessEnv;
}

type CommandLine = readonly [command: string, ...args: string[]];

/**
 * @param start the file by which this program was started
 * @throws CommandError when one of the programs is not installed
 */
export function placesIn(folder: string, start: string, env: NodeJS.ProcessEnv): Places {
  const controllerFolder = join(folder, "controller");
  return {
    folder,
    controllerFolder,
    controllerFile: join(controllerFolder, "controller.yml"),
    passwordFile: join(folder, "admin.password"),
    routerFolder: join(folder, "router"),
    logFile: (program) => join(folder, `${program}.log`),
    pidFile: (program) => join(folder, `${program}.pid`),
    programs: { controller: daemonCommand("controller", start, env), router: daemonCommand("router", start, env) },
    env,
  };
}
