import type { CommandContext } from "../../context.ts";
import { CommandError, UsageError } from "../../errors.ts";
import { withNetwork } from "../../network/open-network.ts";
import { canAsk, confirm } from "../../terminal/questions.ts";
import { visible } from "../../terminal/visible.ts";
import type { Configure } from "../configure.ts";
import {
  type DeclaredOptions,
  declaredBy,
  type Planned,
  planned,
  planText,
  withDeclaredOptions,
} from "./declared-options.ts";

const HELP = `
Files hold the resources of the operator (docs/operator/resources.md) in YAML or JSON. Resources are matched by kind and name: applying a file again changes nothing, and a run
that was interrupted goes on with the next. Nothing is written unless all files are right and every resource can be applied.
Entities that another client made are not touched without --adopt, those of an operator never. --prune asks before it deletes; without a terminal it needs --yes.

Examples:
  sallyport apply -f network.yml
  sallyport apply -f services/ -R --dry-run
  sallyport apply -f team-red/ -l team=red --prune --yes
  sallyport export | sallyport apply -n staging -f -
`;

interface ApplyOptions extends DeclaredOptions {
  readonly dryRun?: true;
  readonly yes?: true;
}

export const configureApply: Configure = (command, context) => {
  command.description("Makes the network as files declare it.");
  withDeclaredOptions(command)
    .option("--dry-run", "print what would change, as 'sallyport diff' does, and change nothing")
    .option("-y, --yes", "do not ask before something is deleted")
    .addHelpText("after", HELP)
    .action(async (options: ApplyOptions) => {
      const files = await declaredBy(options, context);
      await withNetwork(options.network, context, async ({ name, caller }) => {
        const plan = await planned(files, options, caller, context);
        if (options.dryRun === true) {
          const text = await planText(plan);
          context.stdout.write(text);
          if (text === "") context.stderr.write("nothing to do\n");
        } else await apply(plan, name, options, context);
      });
    });
};

async function apply(plan: Planned, network: string, { yes }: ApplyOptions, context: CommandContext): Promise<void> {
  const { steps, deletions, state, planOptions } = plan;
  if (deletions.length > 0 && yes !== true) {
    if (!canAsk(context))
      throw new UsageError(`${countOf(deletions.length)} would be deleted, and there is no terminal to ask: add --yes`);
    const titles = deletions.map(({ title }) => visible(title)).join(", ");
    if (!(await confirm(`Delete ${titles} of ${network}?`, context))) throw new CommandError("nothing was changed");
  }
  const { Carrier, hasWork } = await import("../../declared/carry-out.ts");
  let failures = 0;
  const counts = new Map<string, number>();
  const count = (what: string): void => void counts.set(what, (counts.get(what) ?? 0) + 1);
  const reports = {
    done: (title: string, what: string): void => {
      count(what);
      context.stdout.write(`${visible(title)} ${what}\n`);
    },
    failed: (title: string, why: string): void => {
      failures++;
      context.stderr.write(`sallyport: ${visible(`${title}: ${why}`)}\n`);
    },
  };
  const carrier = new Carrier(steps, state, planOptions, reports);
  await carrier.apply();
  // What was to be changed may be what still refers to it.
  if (failures === 0) await carrier.delete(deletions);
  for (const step of steps) if (!hasWork(step)) count(step.outcome === "kept" ? KEPT : "unchanged");
  const summary = [...counts].map(([what, number]) => `${number} ${what}`).join(", ");
  context.stderr.write(`${summary || "nothing to do"}\n`);
  if (failures > 0) throw new CommandError(`${countOf(failures)} could not be applied; run it again to go on`);
}

const KEPT = "as declared, but of another owner (--adopt takes over what has none)";

const countOf = (number: number): string => `${number} ${number === 1 ? "resource" : "resources"}`;
