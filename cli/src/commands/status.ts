import { pause } from "@sallyport/async";
import type { CommandContext } from "../context.ts";
import { CommandError, ExitStatus, UsageError } from "../errors.ts";
import { type OpenNetwork, withNetwork } from "../network/open-network.ts";
import { documentText, type Format } from "../output/format.ts";
import type { NetworkStatus } from "../status/network-status.ts";
import { readStatus } from "../status/read-status.ts";
import { statusText } from "../status/status-text.ts";
import { bold, hasColours, widthOf } from "../terminal/screen.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import { type NetworkOption, type OutputOption, withNetworkOption, withOutputOption } from "./shared-options.ts";

interface StatusOptions extends NetworkOption, OutputOption {
  readonly watch?: true;
}

/** The controller is asked again after so long. */
const PAUSE_MS = 2_000;
/** To the first line and column, and everything below it goes. */
const CLEAR_SCREEN = "\u001b[H\u001b[J";

const HELP = `
Shows controllers, routers, links with their latency (there and back), circuits and sessions, and what fails: each with the command that explains or fixes it.
What the controller does not tell is named at the end.

A problem is a failure where policy allows what does not work, such as a router that is offline, or a service that an identity may host and none does. Everything
else is a warning: identities that are disabled, certificates that end soon, dials that failed in the last quarter of an hour.

The exit status is 0 if nothing fails, and 1 if something does; warnings do not count.

Examples:
  sallyport status
  sallyport status -w
  sallyport status -o wide
  sallyport status -o jsonpath=$.problems[*].message
`;

export const configureStatus: Configure = (command, context) => {
  command
    .description("Shows the network on one screen, and what fails.")
    .option("-w, --watch", "go on and show it again when it changes");
  withOutputOption(withNetworkOption(command), "table")
    .addHelpText("after", HELP)
    .action(async ({ network, output, watch }: StatusOptions) => {
      if (output.kind === "name")
        throw new UsageError("-o name shows names of entities: expected table, wide, json, yaml or jsonpath=QUERY");
      await withNetwork(network, context, async (open) => {
        if (watch === true) return await watched(open, output, context);
        const status = await readStatus(open, context.signal);
        context.stdout.write(await textOf(status, output, context));
        const failed = status.problems.filter((each) => each.status === "failed").length;
        // Commands end with 1 by an error; this answer is none.
        if (failed > 0) throw new CommandError(`${failed} of the problems above are failures`);
      });
    });
};

async function textOf(status: NetworkStatus, output: Format, { stdout, env }: CommandContext): Promise<string> {
  if (output.kind === "json" || output.kind === "yaml" || output.kind === "jsonpath")
    return await documentText(status, output, stdout.isTTY === true);
  return await statusText(status, {
    isWide: output.kind === "table" && output.isWide,
    width: widthOf(stdout),
    emphasis: (text) => bold(text, hasColours(stdout, env)),
    now: Date.now(),
  });
}

/** Until the user interrupts. A terminal shows the newest state alone, a file or pipe one after the other. */
async function watched(open: OpenNetwork, output: Format, context: CommandContext): Promise<void> {
  const { stdout, stderr, signal } = context;
  const isScreen = stdout.isTTY === true && output.kind === "table";
  let last = "";
  while (!signal.aborted) {
    try {
      const text = await textOf(await readStatus(open, signal), output, context);
      if (text !== last) {
        const between = output.kind === "yaml" ? "---\n" : output.kind === "table" && last !== "" ? "\n" : "";
        stdout.write(isScreen ? `${CLEAR_SCREEN}${text}` : `${between}${text}`);
      }
      last = text;
    } catch (error) {
      if (last === "" || !(error instanceof CommandError) || error.status !== ExitStatus.Unreachable) throw error;
      stderr.write(`${visible(error.message)}; asking again\n`);
    }
    await pause(PAUSE_MS, signal);
  }
  signal.throwIfAborted();
}
