import { Argument, type Command } from "commander";
import type { CommandContext } from "../context.ts";
import { CommandError, UsageError } from "../errors.ts";
import { isPackaged, type Scope, SERVICES, type Service } from "../service/unit.ts";
import type { Configure } from "./configure.ts";
import { folderOption, once } from "./shared-options.ts";

interface ScopeOptions {
  readonly system?: true;
  readonly user?: true;
}

interface InstallArguments extends ScopeOptions {
  readonly dir?: string;
  readonly runAs?: string;
  readonly dryRun?: true;
}

const HELP = `
A service of the system runs as the user 'sallyport' without rights, works in /var/lib/sallyport-SERVICE, and sees of the system only what it needs. One of a
user works in ~/.local/share/sallyport/SERVICE. A controller needs controller.yml there, a router router.yml (and router.jwt, with which the first start
enrolls it), and a tunneler identity.json.

'quickstart' and 'join' are the network and the joined network of the user, as 'sallyport quickstart' and 'sallyport quickstart --join' have made them.

Arguments behind -- take the place of the program's usual ones.

Examples:
  sudo sallyport service install controller
  sallyport service install tunnel --user -- proxy -i identity.json web:8000
  sallyport service install quickstart
  sallyport service install router --dry-run
  sudo sallyport service uninstall controller
`;

export const configureService: Configure = (command, context) => {
  command.description("Runs programs of a network as services of systemd.").addHelpText("after", HELP);
  const install = below(command, "install", "write the unit of a program, enable and start it");
  install
    .argument("[arguments...]", "arguments of the program, behind --")
    .option("--dir <dir>", "folder in which the program works", folderOption("dir"))
    .option(
      "--run-as <user>",
      "user of a service of the system; 'sallyport' when absent, and root for quickstart and join",
      once("run-as"),
    )
    .option("--dry-run", "print the unit and the commands, and change nothing")
    .action(async (service: Service, args: readonly string[], options: InstallArguments) => {
      const { installService } = await import("../service/install.ts");
      const isDryRun = options.dryRun === true;
      const scope = scopeOf(options, isDryRun);
      if (scope === "user" && options.runAs !== undefined)
        throw new UsageError("--run-as is for services of the system: those of a user run as this user");
      const { dir, runAs: user } = options;
      if (user !== undefined && dir === undefined && !isPackaged(service))
        throw new UsageError(`--run-as needs --dir with the folder of that user's ${service}`);
      if (user !== undefined && !/^[a-z_][a-z0-9_-]{0,31}$/.test(user))
        throw new UsageError(`'${user}' cannot be the name of a user`);
      await installService(
        { service, scope, folder: dir, user, args, isDryRun, start: process.argv[1] ?? "" },
        context,
      );
    });
  below(command, "uninstall", "stop the service, and remove its unit").action(
    async (service: Service, options: ScopeOptions) => await uninstall(service, scopeOf(options, false), context),
  );
};

function below(command: Command, name: string, summary: string): Command {
  return command
    .command(name)
    .summary(summary)
    .description(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`)
    .addArgument(new Argument("<service>", "program to run").choices(SERVICES))
    .option("--system", "of the system; usual for root")
    .option("--user", "of this user; usual for all others");
}

async function uninstall(service: Service, scope: Scope, context: CommandContext): Promise<void> {
  const { uninstallService } = await import("../service/install.ts");
  await uninstallService({ service, scope }, context);
}

/** @throws UsageError for both, CommandError where this user may not */
function scopeOf({ system, user }: ScopeOptions, isDryRun: boolean): Scope {
  if (system && user) throw new UsageError("--system and --user exclude each other");
  if (process.platform !== "linux")
    throw new CommandError(`services are those of systemd, on Linux; this is ${process.platform}`);
  const isRoot = process.getuid?.() === 0;
  if (system && !isRoot && !isDryRun) throw new CommandError("a service of the system needs root: use sudo, or --user");
  return user || (!system && !isRoot) ? "user" : "system";
}
