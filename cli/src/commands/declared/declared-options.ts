/** What `apply` and `diff` have in common: files, options, and the way to a plan. */
import { type Command, Option } from "commander";
import type { CommandContext } from "../../context.ts";
import type { Deletion } from "../../declared/deletions.ts";
import type { Finding } from "../../declared/documents.ts";
import type { Declared } from "../../declared/manifests.ts";
import type { Labels } from "../../declared/marks.ts";
import type { NetworkState } from "../../declared/network-state.ts";
import type { Plan, PlanOptions } from "../../declared/plan.ts";
import { CommandError, UsageError } from "../../errors.ts";
import type { ApiCaller } from "../../network/api-caller.ts";
import { visible } from "../../terminal/visible.ts";
import { type NetworkOption, withNetworkOption } from "../shared-options.ts";

export interface DeclaredOptions extends NetworkOption {
  readonly filename?: readonly string[];
  readonly recursive?: true;
  readonly selector?: string;
  readonly prune?: true;
  readonly adopt?: true;
  readonly roleScope: "Global" | "Namespaced";
  readonly skipClusterOnly?: true;
}

export function withDeclaredOptions(command: Command): Command {
  const scope = new Option("--role-scope <scope>", "roleScope of the Network that the files are for")
    .choices(["Global", "Namespaced"])
    .default("Global");
  command
    .option("-f, --filename <file...>", "files, folders, or - for the standard input")
    .option("-R, --recursive", "also the folders below a folder")
    .option("-l, --selector <labels>", "only resources with these labels: KEY=VALUE, several with commas")
    .option("--prune", "delete what was applied with the labels of -l and is no longer in the files")
    .option("--adopt", "take over entities that belong to no resource")
    .addOption(scope)
    .option("--skip-cluster-only", "leave out documents that only a cluster can have");
  return withNetworkOption(command);
}

export interface DeclaredFiles {
  /** With the labels of the selector. */
  readonly declared: readonly Declared[];
  /** Whatever their labels are. */
  readonly all: readonly Declared[];
  readonly selector: Labels | undefined;
}

/** The resources that the files declare. @throws UsageError, CommandError after it has printed what is wrong */
export async function declaredBy(options: DeclaredOptions, context: CommandContext): Promise<DeclaredFiles> {
  const { filename = [], recursive, selector: text, prune, skipClusterOnly } = options;
  if (filename.length === 0) throw new UsageError("no files: name them with -f FILE, or -f - for the standard input");
  if (prune === true && text === undefined)
    throw new UsageError("--prune needs -l KEY=VALUE: it deletes only what was applied with these labels");
  const { matches, selectorOf } = await import("../../declared/selector.ts");
  const selector = text === undefined ? undefined : selectorOf(text);
  const { readDocuments } = await import("../../declared/documents.ts");
  const { readManifests } = await import("../../declared/manifests.ts");
  const read = await readDocuments(filename, recursive === true, context);
  const { declared, problems, warnings, clusterOnly } = readManifests(read.documents);
  const isSkipping = skipClusterOnly === true;
  const refused = isSkipping
    ? []
    : clusterOnly.map(({ place, text: what }) => ({ place, text: `${what}; --skip-cluster-only leaves it out` }));
  printFindings([...read.problems, ...problems, ...refused], context);
  const count = read.problems.length + problems.length + refused.length;
  if (count > 0)
    throw new CommandError(`${count} ${count === 1 ? "problem" : "problems"} in the files: nothing was changed`);
  const left = isSkipping ? clusterOnly.map(({ place, text: what }) => ({ place, text: `${what}: left out` })) : [];
  printFindings([...left, ...warnings], context, "warning: ");
  const chosen = selector === undefined ? declared : declared.filter(({ labels }) => matches(labels, selector));
  const others = declared.length - chosen.length;
  if (others > 0) context.stderr.write(`${others} without the labels of -l: left as they are\n`);
  return { declared: chosen, all: declared, selector };
}

export interface Planned extends Plan {
  readonly state: NetworkState;
  readonly deletions: readonly Deletion[];
  readonly planOptions: PlanOptions;
}

/** What is to be done. @throws CommandError after it has printed what cannot be done */
export async function planned(
  { declared, all, selector }: DeclaredFiles,
  { adopt, prune, roleScope }: DeclaredOptions,
  caller: ApiCaller,
  context: CommandContext,
): Promise<Planned> {
  const { NetworkState } = await import("../../declared/network-state.ts");
  const { managementClient } = await import("../../network/management-client.ts");
  const { kindsFor, planAll } = await import("../../declared/plan.ts");
  const { DECLARED_KINDS } = await import("../../declared/declared-kinds.ts");
  const { deletionsOf } = await import("../../declared/deletions.ts");
  const state = new NetworkState(managementClient(caller), context.signal);
  await state.load(prune === true ? DECLARED_KINDS.map(({ kind }) => kind) : kindsFor(declared));
  const planOptions = { roleScope, adopts: adopt === true };
  const plan = await planAll(declared, state, planOptions);
  printFindings(plan.problems, context);
  const { length } = plan.problems;
  if (length > 0)
    throw new CommandError(
      `${length} ${length === 1 ? "resource" : "resources"} cannot be applied: nothing was changed`,
    );
  printFindings(plan.warnings, context, "warning: ");
  const deletions = deletionsOf({ all, declared }, state, prune === true ? selector : undefined);
  return { ...plan, state, deletions, planOptions };
}

/** A file that is no YAML at all has thousands, with half of its content. */
const MAX_FINDINGS = 100;
const MAX_TEXT = 400;

const shortened = (text: string): string => (text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text);

/** In the order of the files. */
function printFindings(findings: readonly Finding[], { stderr }: CommandContext, prefix = ""): void {
  const byPlace = new Intl.Collator("en", { numeric: true });
  const sorted = findings.toSorted((left, right) => byPlace.compare(left.place, right.place));
  for (const { place, text } of sorted.slice(0, MAX_FINDINGS))
    stderr.write(`${prefix}${visible(`${place}: ${shortened(text)}`)}\n`);
  if (sorted.length > MAX_FINDINGS) stderr.write(`${prefix}and ${sorted.length - MAX_FINDINGS} more\n`);
}

/** The whole plan as text; empty when nothing is to be done. */
export async function planText({ steps, deletions, state }: Planned): Promise<string> {
  const { deletionText, stepText } = await import("../../declared/plan-text.ts");
  const { hasWork } = await import("../../declared/carry-out.ts");
  const nameOf = (id: string) => state.nameOf(id);
  return [...steps.filter(hasWork).map((step) => stepText(step, nameOf)), ...deletions.map(deletionText)].join("");
}
