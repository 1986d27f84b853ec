/** Where units, programs and their files are on this machine. */
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import type { CommandContext } from "../context.ts";
import { commandOf, daemonCommand } from "../daemons.ts";
import { CommandError } from "../errors.ts";
import { dataFolder } from "../quickstart/home.ts";
import { isPackaged, type Scope, type Service, systemFolder, unitName } from "./unit.ts";

/** What a unit with `ProtectHome=yes` does not see. */
const HOMES = ["/home/", "/root/", "/run/user/"];
const PACKAGED = "/usr/lib/systemd/system";

/** The file of a unit that an administrator or a user makes. */
export function unitFile(
  service: Service,
  scope: Scope,
  { XDG_CONFIG_HOME: shared, HOME: home }: NodeJS.ProcessEnv,
): string {
  if (scope === "system") return join("/etc/systemd/system", unitName(service));
  const settings = shared?.startsWith("/") ? shared : home ? join(home, ".config") : undefined;
  if (settings !== undefined) return join(settings, "systemd", "user", unitName(service));
  throw new CommandError("there is no folder for the units of this user: HOME is not set");
}

/** The unit of an installed package; undefined where there is none. */
export function packagedUnit(service: Service): string | undefined {
  const file = join(PACKAGED, unitName(service));
  return existsSync(file) ? file : undefined;
}

/** The folder of a service whose user names none. */
export function usualFolder(service: Service, scope: Scope, env: NodeJS.ProcessEnv): string {
  if (!isPackaged(service)) return dataFolder(service === "join" ? "joined" : service, env);
  return scope === "system" ? systemFolder(service) : dataFolder(service, env);
}

/**
 * The command line of the program. A name on the PATH stays right when the program behind it is upgraded.
 *
 * @param start the file by which this program was started
 * @throws CommandError when it is not installed, or not where the unit can see it
 */
export function programOf(
  service: Service,
  scope: Scope,
  start: string,
  env: CommandContext["env"],
): readonly string[] {
  const name = isPackaged(service) ? `sallyport-${service}` : "sallyport";
  const folders = (env.PATH ?? "").split(delimiter).filter(isAbsolute);
  const onPath = folders.map((folder) => join(folder, name)).find(isExecutable);
  const installed = () => (isPackaged(service) ? daemonCommand(service, start, env) : commandOf(start));
  const command = (onPath === undefined ? installed() : commandOf(onPath)).map(absolute);
  const hidden =
    scope === "system" && isPackaged(service)
      ? command.find((part) => HOMES.some((home) => part.startsWith(home)))
      : undefined;
  if (hidden === undefined) return command;
  throw new CommandError(
    `${hidden} is in the home folder of a user, which a service of the system does not see: install Sallyport for all users (sudo sh install.sh, or a package), or use --user`,
  );
}

function absolute(part: string): string {
  return part.startsWith("-") ? part : resolve(part);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
