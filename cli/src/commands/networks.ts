import type { CommandContext } from "../context.ts";
import { NetworkStore } from "../network/saved-network.ts";
import { documentText } from "../output/format.ts";
import { table } from "../output/table.ts";
import { bold, hasColours, widthOf } from "../terminal/screen.ts";
import type { Configure } from "./configure.ts";
import { type OutputOption, withOutputOption } from "./shared-options.ts";

const EXAMPLES = `
Examples:
  sallyport networks
  sallyport networks use production
  SALLYPORT_NETWORK=staging sallyport get services
`;

export const configureNetworks: Configure = (command, context) => {
  command.description("Lists the saved networks and chooses the current one.").addHelpText("after", EXAMPLES);
  const list = command
    .command("list", { isDefault: true })
    .summary("list the saved networks; * marks the current one")
    .description("Lists the saved networks; * marks the current one.")
    .helpOption("-h, --help", "print this text");
  withOutputOption(list, "table").action(async ({ output }: OutputOption) => await listNetworks(output, context));
  command
    .command("use")
    .argument("<network>", "name of a saved network")
    .summary("make a network the current one")
    .description("Makes a network the current one.")
    .helpOption("-h, --help", "print this text")
    .action(async (name: string) => {
      await new NetworkStore(context.env).use(name);
      context.stdout.write(`using ${name}\n`);
    });
};

async function listNetworks(output: OutputOption["output"], context: CommandContext): Promise<void> {
  const { stdout, stderr, env } = context;
  const store = new NetworkStore(env);
  const current = env.SALLYPORT_NETWORK || (await store.current());
  const networks = [];
  for (const name of await store.names()) {
    const saved = await store.read(name).catch(() => undefined);
    networks.push({
      name,
      isCurrent: name === current,
      controller: saved?.controller ?? "(cannot be read)",
      login: saved?.login.method ?? "",
      identity: saved?.session?.identity ?? "",
    });
  }
  if (output.kind === "name") stdout.write(networks.map(({ name }) => `${name}\n`).join(""));
  else if (output.kind !== "table") stdout.write(await documentText(networks, output, stdout.isTTY === true));
  else if (networks.length === 0) stderr.write("no networks: log in with 'sallyport login https://HOST:PORT'\n");
  else {
    const rows = networks.map(({ name, isCurrent, controller, login, identity }) => [
      isCurrent ? "*" : "",
      name,
      controller,
      login,
      identity,
    ]);
    const heading = (line: string) => bold(line, hasColours(stdout, env));
    stdout.write(
      await table(["", "NAME", "CONTROLLER", "LOGIN", "IDENTITY"], rows, { width: widthOf(stdout), heading }),
    );
  }
}
