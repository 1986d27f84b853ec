import { InvalidArgumentError } from "commander";
import type { CommandContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { checkedHost } from "../quickstart/addresses.ts";
import {
  checkNoDoubles,
  type Exposure,
  exposureOf,
  type ServedFolder,
  servedFolderOf,
} from "../quickstart/exposure.ts";
import { dataFolder } from "../quickstart/home.ts";
import type { Configure } from "./configure.ts";
import { folderOption, once, positiveNumber } from "./shared-options.ts";

interface StartOptions {
  readonly dir?: string;
  readonly host?: string;
  readonly port?: number;
  readonly routerPort?: number;
  readonly expose?: readonly Exposure[];
  readonly serve?: readonly ServedFolder[];
  readonly tokenDir?: string;
  readonly qr?: true;
  /** True without a token. */
  readonly join?: string | true;
  readonly intercept?: boolean;
}

/** What makes a network, and means nothing where one is joined. */
const OF_A_NETWORK = ["port", "expose", "serve", "tokenDir", "qr"] as const;

const HELP = `
The network has a controller with its own database, a router, policies, one service for each --expose, and identities for two more machines. It runs until
Ctrl-C or SIGTERM. The next run goes on with the same network; what an interrupted run has begun is finished. A new --expose adds a service, and one with the
name of a service changes where it leads.

With --join, a machine redeems a token once. With the token of an edge router it runs a router, at --host and --router-port. Otherwise it runs a tunneler:
programs reach the services that the identity may dial by their names where connections can be intercepted (root on Linux, with ip and nft), otherwise by ports
of this machine, which are printed.

Clients and servers need no open port. Other machines reach this one at the controller's and the router's port (TCP 1280 and 3022 unless they are in use).

Examples:
  sallyport quickstart --expose web=8080
  sallyport quickstart --host net.example.org --expose web=8080 --expose db=10.0.0.5:5432
  sallyport quickstart --join machine-2.jwt
  sallyport quickstart --join                 (again, without the token)
`;

export const configureQuickstart: Configure = (command, context) => {
  command
    .description("Makes a network on this machine that stays, or goes on with it; with --join, joins a network.")
    .option(
      "--dir <dir>",
      "folder of the network; $XDG_DATA_HOME/sallyport/quickstart when absent",
      folderOption("dir"),
    )
    .option(
      "--host <host>",
      "name or address under which other machines reach this one; its own when absent",
      once("host"),
    )
    .option("--port <port>", "of the controller; 1280 or the next free one when absent", portOf("port"))
    .option("--router-port <port>", "of the router; 3022 or the next free one when absent", portOf("router-port"))
    .option(
      "--expose <[name=][host:]port>",
      "a service that leads to this port; may be repeated",
      (text: string, before: readonly Exposure[] = []) => [...before, exposureOf(text)],
    )
    .option(
      "--serve <[name=]dir>",
      "a service with the files of this folder as web pages; may be repeated",
      (text: string, before: readonly ServedFolder[] = []) => [...before, servedFolderOf(text)],
    )
    .option("--qr", "show the tokens as QR codes, too")
    .option(
      "--token-dir <dir>",
      "folder for the tokens of other machines; the network's when absent",
      folderOption("token-dir"),
    )
    .option("--join [token]", "join the network of a token, given as text, file or -; without one, go on as before")
    .option("--intercept", "reach the services of the joined network by their names (Linux, root); else by local ports")
    .option("--no-intercept", "reach them by ports of this machine, as root too")
    .addHelpText("after", HELP)
    .action(async (options: StartOptions) => {
      if (options.join !== undefined) return await joinAs(options, context);
      if (options.intercept !== undefined) throw new UsageError("--intercept and --no-intercept go with --join");
      const { expose: exposures = [], serve: served = [] } = options;
      checkNoDoubles([...exposures, ...served]);
      const folder = options.dir ?? dataFolder("quickstart", context.env);
      const { quickstart } = await import("../quickstart/quickstart.ts");
      await quickstart(
        {
          folder,
          host: options.host === undefined ? undefined : checkedHost(options.host),
          port: options.port,
          routerPort: options.routerPort,
          exposures,
          served,
          isQr: options.qr === true,
          tokenFolder: options.tokenDir ?? `${folder}/tokens`,
          start: process.argv[1] ?? "",
        },
        context,
      );
    });
};

async function joinAs(options: StartOptions, context: CommandContext): Promise<void> {
  const { join, dir, intercept, host, routerPort } = options;
  const other = OF_A_NETWORK.find((name) => options[name] !== undefined);
  if (other !== undefined) {
    const option = other.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    throw new UsageError(`--${option} is for a network that is made here, not for one that is joined`);
  }
  if (join === "")
    throw new UsageError("--join expects the text of a token, a file, or - for the standard input; found ''");
  const { joinNetwork } = await import("../quickstart/join/join.ts");
  await joinNetwork(
    {
      folder: dir ?? dataFolder("joined", context.env),
      token: join === true ? undefined : join,
      isIntercepting: intercept,
      host: host === undefined ? undefined : checkedHost(host),
      routerPort,
      start: process.argv[1] ?? "",
    },
    context,
  );
}

function portOf(name: string): (text: string, before: number | undefined) => number {
  return (text, before) => {
    if (before !== undefined) throw new UsageError(`--${name} was given twice`);
    const port = positiveNumber(text);
    if (port < 65_536) return port;
    throw new InvalidArgumentError("Expected a port from 1 to 65535.");
  };
}
