import { resolve } from "node:path";
import { InvalidArgumentError } from "commander";
import { checkedHost } from "../quickstart/addresses.ts";
import { type Exposure, exposureOf, withoutDoubles } from "../quickstart/exposure.ts";
import { dataFolder } from "../quickstart/home.ts";
import type { Configure } from "./configure.ts";
import { once, positiveNumber } from "./shared-options.ts";

interface StartOptions {
  readonly dir?: string;
  readonly host?: string;
  readonly port?: number;
  readonly routerPort?: number;
  readonly expose?: readonly Exposure[];
  readonly tokenDir?: string;
}

const HELP = `
The network has a controller with its own database, a router, policies, one service for each --expose, and identities for two more machines. It runs until
Ctrl-C or SIGTERM. The next run goes on with the same network; what an interrupted run has begun is finished. A new --expose adds a service, and one with the
name of a service changes where it leads.

Clients and servers need no open port. Other machines reach this one at the controller's and the router's port (TCP 1280 and 3022 unless they are in use).

Examples:
  sallyport quickstart --expose web=8080
  sallyport quickstart --host net.example.org --expose web=8080 --expose db=10.0.0.5:5432
  sallyport quickstart --dir /srv/network
`;

export const configureQuickstart: Configure = (command, context) => {
  command
    .description("Makes a network on this machine that stays, or goes on with it.")
    .option("--dir <dir>", "folder of the network; $XDG_DATA_HOME/sallyport/quickstart when absent", once("dir"))
    .option(
      "--host <host>",
      "name or address under which other machines reach this one; its own when absent",
      once("host"),
    )
    .option("--port <port>", "of the controller; 1280 or the next free one when absent", portOf)
    .option("--router-port <port>", "of the router; 3022 or the next free one when absent", portOf)
    .option(
      "--expose <[name=][host:]port>",
      "a service that leads to this port; may be repeated",
      (text: string, before: readonly Exposure[] = []) => [...before, exposureOf(text)],
    )
    .option(
      "--token-dir <dir>",
      "folder for the tokens of other machines; the network's when absent",
      once("token-dir"),
    )
    .addHelpText("after", HELP)
    .action(async (options: StartOptions) => {
      const folder = resolve(options.dir ?? dataFolder("quickstart", context.env));
      const { quickstart } = await import("../quickstart/quickstart.ts");
      await quickstart(
        {
          folder,
          host: options.host === undefined ? undefined : checkedHost(options.host),
          port: options.port,
          routerPort: options.routerPort,
          exposures: withoutDoubles(options.expose ?? []),
          tokenFolder: options.tokenDir ?? `${folder}/tokens`,
          start: process.argv[1] ?? "",
        },
        context,
      );
    });
};

function portOf(text: string): number {
  const port = positiveNumber(text);
  if (port < 65_536) return port;
  throw new InvalidArgumentError("Expected a port from 1 to 65535.");
}
