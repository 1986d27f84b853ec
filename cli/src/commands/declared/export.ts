import type { DeclaredKind } from "../../declared/declared-kinds.ts";
import { UsageError, wordHint } from "../../errors.ts";
import { kindNamed, wordsOf } from "../../kinds/find-kind.ts";
import { withNetwork } from "../../network/open-network.ts";
import { yamlText } from "../../output/format.ts";
import { visible } from "../../terminal/visible.ts";
import type { Configure } from "../configure.ts";
import { type NetworkOption, withNetworkOption } from "../shared-options.ts";

const HELP = `
Without kinds, all that can be declared is printed. What the network makes itself, such as the first administrator, is left out. Credentials are never printed. What cannot be declared is
named on the standard error.

Examples:
  sallyport export > network.yml
  sallyport export services configs > services.yml
  sallyport export -l team=red --network-ref main > red.yml
`;

interface ExportCommandOptions extends NetworkOption {
  readonly selector?: string;
  readonly networkRef?: string;
}

export const configureExport: Configure = (command, context) => {
  command
    .description("Prints the network as files for 'sallyport apply' and for a cluster.")
    .argument("[kinds...]", "such as identity, service, ServicePolicy")
    .option("-l, --selector <labels>", "only what was applied with these labels: KEY=VALUE, several with commas")
    .option("--network-ref <name>", "spec.networkRef of the resources; like the name of the saved network when absent");
  withNetworkOption(command)
    .addHelpText("after", HELP)
    .action(async (words: readonly string[], { selector: text, networkRef, network }: ExportCommandOptions) => {
      const { DECLARED_KINDS } = await import("../../declared/declared-kinds.ts");
      const { selectorOf } = await import("../../declared/selector.ts");
      const { nameLike } = await import("../../declared/export/exported-names.ts");
      const chosen = words.map((word) => kindCalled(word, DECLARED_KINDS));
      const kinds = chosen.length === 0 ? DECLARED_KINDS : DECLARED_KINDS.filter((kind) => chosen.includes(kind));
      const selector = text === undefined ? undefined : selectorOf(text);
      if (networkRef !== undefined && nameLike(networkRef) !== networkRef)
        throw new UsageError(`--network-ref '${networkRef}' names no Network: expected small letters, digits, - and .`);
      await withNetwork(network, context, async ({ name, caller }) => {
        const { NetworkState } = await import("../../declared/network-state.ts");
        const { managementClient } = await import("../../network/management-client.ts");
        const { exportAll } = await import("../../declared/export/export-all.ts");
        const state = new NetworkState(managementClient(caller), context.signal);
        await state.load(DECLARED_KINDS.map(({ kind }) => kind));
        const { manifests, left } = await exportAll(state, {
          kinds,
          selector,
          networkRef: networkRef ?? nameLike(name),
        });
        const texts = await Promise.all(manifests.map(yamlText));
        context.stdout.write(texts.map((each) => `---\n${each}`).join(""));
        for (const each of left) context.stderr.write(`warning: left out: ${visible(each)}\n`);
      });
    });
};

/** @throws UsageError with the nearest word */
function kindCalled(word: string, kinds: readonly DeclaredKind[]): DeclaredKind {
  const words = (kind: DeclaredKind) => [kind.kind.toLowerCase(), ...wordsOf(kindNamed(kind.shownAs))];
  const found = kinds.find((kind) => words(kind).includes(word.toLowerCase()));
  if (found !== undefined) return found;
  const hint = wordHint(
    word,
    kinds.flatMap(words),
    `expected one of ${kinds.map(({ shownAs }) => shownAs).join(", ")}`,
  );
  throw new UsageError(`'${word}' cannot be exported: ${hint}`);
}
