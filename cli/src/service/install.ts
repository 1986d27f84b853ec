/** Units of systemd on this machine: written, enabled, and removed again. */
import { existsSync, readFileSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { CommandContext } from "../context.ts";
import { CommandError } from "../errors.ts";
import { holderOf } from "../quickstart/programs/folder-lock.ts";
import { visible } from "../terminal/visible.ts";
import { packagedUnit, programOf, unitFile, usualFolder } from "./places.ts";
import { runNow, systemctl, whyNotManaged } from "./systemd.ts";
import { fileOf, isPackaged, type Scope, type Service, SYSTEM_USER, systemFolder, unitName, unitText } from "./unit.ts";

/** Above the text of a unit that may be replaced and removed. */
const MARK = "# Written by 'sallyport service install', which replaces this file. Changes: systemctl edit";

export interface InstallOptions {
  readonly service: Service;
  readonly scope: Scope;
  readonly folder: string | undefined;
  readonly user: string | undefined;
  /** Of the program, in place of the usual ones. */
  readonly args: readonly string[];
  readonly isDryRun: boolean;
  /** The file by which this program was started. */
  readonly start: string;
}

/** Writes the unit, and has it started now if there is something to run. @throws CommandError */
export async function installService(options: InstallOptions, context: CommandContext): Promise<void> {
  const { service, scope, isDryRun, args, start } = options;
  const { env, stdout } = context;
  const say = (line: string): void => void stdout.write(`${visible(line)}\n`);
  const folder = options.folder ?? usualFolder(service, scope, env);
  if (!isPackaged(service)) await checkNotRunning(folder);
  const command = programOf(service, scope, start, env);
  const user = options.user === undefined ? {} : { user: options.user };
  const given = args.length === 0 ? undefined : args;
  const text = `${MARK}\n${unitText({ service, scope, command, args: given, folder, ...user })}`;
  const file = unitFile(service, scope, env);
  const name = unitName(service);
  const isReady = existsSync(join(folder, fileOf(service)));
  const steps = [
    systemctl(scope, "daemon-reload"),
    systemctl(scope, "enable", ...(isReady ? ["--now"] : []), name),
    ...(isReady ? [systemctl(scope, "restart", name)] : []),
  ];
  if (isDryRun) {
    stdout.write(`# ${visible(file)}\n${text}\n`);
    for (const step of steps) say(`# ${step.join(" ")}`);
    return;
  }
  const packaged = scope === "system" ? packagedUnit(service) : undefined;
  if (packaged !== undefined && !existsSync(file)) {
    throw new CommandError(
      `the installed package has this service, ${packaged}: start it with 'systemctl enable --now ${name}', and change it with 'systemctl edit ${name}'`,
    );
  }
  checkReplaceable(file);
  if (scope === "system") ensureUser(options.user ?? (isPackaged(service) ? SYSTEM_USER : "root"), env);
  await write(file, text);
  say(`wrote ${file}`);
  const why = whyNotManaged(scope, env);
  if (why !== undefined) {
    say(`${why}, so nothing was started. Where it runs: ${steps.map((step) => step.join(" ")).join(" && ")}`);
  } else {
    for (const step of steps) runNow(step, env);
    say(isReady ? `${name} is enabled and runs` : `${name} is enabled`);
  }
  if (!isReady)
    say(
      `there is no ${join(folder, fileOf(service))} yet: ${howToMake(service)}, then start the service with '${systemctl(scope, "start", name).join(" ")}'`,
    );
  if (scope === "user") say("without 'loginctl enable-linger' it stops when you log out");
}

/** Stops the service and removes its unit; files of the program stay. @throws CommandError */
export async function uninstallService(
  { service, scope }: Pick<InstallOptions, "service" | "scope">,
  { env, stdout }: CommandContext,
): Promise<void> {
  const file = unitFile(service, scope, env);
  if (!existsSync(file)) {
    const other = scope === "system" ? "--user" : "--system";
    throw new CommandError(`there is no ${file}: nothing to remove; ${other} is for the other place`);
  }
  checkReplaceable(file);
  const isManaged = whyNotManaged(scope, env) === undefined;
  if (isManaged) runNow(systemctl(scope, "disable", "--now", unitName(service)), env);
  await rm(file);
  if (isManaged) runNow(systemctl(scope, "daemon-reload"), env);
  stdout.write(`${visible(`removed ${file}; what the program has written stays`)}\n`);
}

/** Two runs at a time cannot have one folder. @throws CommandError */
async function checkNotRunning(folder: string): Promise<void> {
  const holder = await holderOf(folder);
  if (holder === undefined) return;
  throw new CommandError(`it runs in ${folder} already (process ${holder.pid}): stop it, and install the service then`);
}

/** @throws CommandError for a unit that another program or an administrator has written */
function checkReplaceable(file: string): void {
  const text = existsSync(file) ? readFileSync(file, "utf8") : MARK;
  if (text.startsWith(MARK)) return;
  throw new CommandError(`${file} was not written by 'sallyport service install': move it away first`);
}

async function write(file: string, text: string): Promise<void> {
  const beside = `${file}.new`;
  try {
    await mkdir(dirname(file), { recursive: true });
    await writeFile(beside, text, { mode: 0o644 });
    await rename(beside, file);
  } catch (error) {
    await rm(beside, { force: true }).catch(() => undefined);
    throw new CommandError(`cannot write ${file}: ${(error as Error).message}`, undefined, { cause: error });
  }
}

/** Makes the user of the services, as packages do. */
function ensureUser(user: string, env: CommandContext["env"]): void {
  const isThere = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .some((line) => line.startsWith(`${user}:`));
  if (isThere) return;
  if (user !== SYSTEM_USER) throw new CommandError(`there is no user '${user}': create it, or omit --run-as`);
  const home = systemFolder("controller");
  runNow(["useradd", "--system", "--user-group", "--home-dir", home, "--shell", "/usr/sbin/nologin", user], env);
}

function howToMake(service: Service): string {
  if (isPackaged(service)) return "make it";
  return service === "join"
    ? "join with 'sallyport quickstart --join TOKEN', stop it"
    : "run 'sallyport quickstart', stop it";
}
