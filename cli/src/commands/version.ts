import type { ApiAnswer } from "../network/api-caller.ts";
import { MANAGEMENT_API } from "../network/api-paths.ts";
import { withNetwork } from "../network/open-network.ts";
import { NetworkStore } from "../network/saved-network.ts";
import { documentText } from "../output/format.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import { type NetworkOption, type OutputOption, withNetworkOption, withOutputOption } from "./shared-options.ts";

interface VersionOptions extends NetworkOption, OutputOption {
  readonly own?: true;
}

const EXAMPLES = `
Examples:
  sallyport version
  sallyport version --own
  sallyport version -o jsonpath=$.controller.version
`;

export const configureVersion: Configure = (command, context) => {
  command
    .description("Shows the versions of this program and of the controller of the network.")
    .option("--own", "of this program only: asks no controller");
  withOutputOption(withNetworkOption(command), "table")
    .addHelpText("after", EXAMPLES)
    .action(async ({ network, own, output }: VersionOptions) => {
      const { stdout, env } = context;
      const program = { version: command.parent?.version()?.replace("sallyport ", "") ?? "" };
      const store = new NetworkStore(env);
      const isAsked =
        own !== true &&
        (network !== undefined || Boolean(env.SALLYPORT_NETWORK) || (await store.current()) !== undefined);
      const controller = isAsked
        ? await withNetwork(network, context, async ({ caller }) => await asked(caller))
        : undefined;
      if (output.kind !== "table" && output.kind !== "name") {
        stdout.write(await documentText({ program, ...(controller && { controller }) }, output, stdout.isTTY === true));
        return;
      }
      stdout.write(`sallyport ${program.version}\n`);
      if (controller === undefined) return;
      const { product, version, url, capabilities } = controller;
      stdout.write(`${visible(`controller ${product}, protocol ${version}, at ${url}`)}\n`);
      if (capabilities.length > 0) stdout.write(`${visible(`capabilities ${capabilities.join(", ")}`)}\n`);
    });
};

/** What a controller says of itself. */
async function asked(caller: {
  readonly controller: string;
  send(request: { method: string; path: string }): Promise<ApiAnswer>;
  json(request: { method: string; path: string }): Promise<{ readonly data: unknown }>;
}) {
  const path = `${MANAGEMENT_API}/version`;
  const { headers } = await caller.send({ method: "GET", path });
  const { data } = await caller.json({ method: "GET", path });
  const { version, capabilities } = data as { version?: string; capabilities?: readonly string[] | null };
  const own = headers["sallyport-version"];
  return {
    url: caller.controller,
    product: typeof own === "string" ? `Sallyport ${own}` : "of OpenZiti",
    version: version ?? "",
    capabilities: capabilities ?? [],
  };
}
