import { errorText } from "@sallyport/async";
import type { CommandContext } from "../../context.ts";
import { CommandError, ExitStatus, QuietEnd } from "../../errors.ts";
import { withNetwork } from "../../network/open-network.ts";
import type { Configure } from "../configure.ts";
import { type DeclaredOptions, declaredBy, planned, planText, withDeclaredOptions } from "./declared-options.ts";

const HELP = `
A line that begins with + is a resource that would be created, ~ one that would change, - one that would be deleted. Below it are its fields, with names in place of ids.

Exit status: 0 when the network is as declared, 1 when something differs, 2 when files or resources cannot be used. Others are those of 'sallyport --help'.

Examples:
  sallyport diff -f network.yml
  sallyport diff -f team-red/ -l team=red --prune
`;

export const configureDiff: Configure = (command, context) => {
  command.description("Shows what 'sallyport apply' would change.");
  withDeclaredOptions(command)
    .addHelpText("after", HELP)
    .action(async (options: DeclaredOptions) => {
      const text = await withOwnStatus(context, async () => {
        const files = await declaredBy(options, context);
        return await withNetwork(options.network, context, async ({ caller }) =>
          planText(await planned(files, options, caller, context)),
        );
      });
      context.stdout.write(text);
      if (text !== "") throw new QuietEnd(ExitStatus.Failed);
    });
};

/** A failure must not look like a difference. */
async function withOwnStatus<T>(context: CommandContext, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof CommandError && error.status !== ExitStatus.Failed) throw error;
    context.signal.throwIfAborted();
    throw new CommandError(errorText(error), ExitStatus.Usage, { cause: error });
  }
}
