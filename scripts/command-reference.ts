/** docs/reference/cli.md: the help of every program, as `--help` prints it. */
import { helpTexts } from "../cli/src/help.ts";
import { USAGE as CONTROLLER } from "../controller/src/commands/command-line.ts";
import { USAGE as OPERATOR } from "../operator/src/program/settings.ts";
import { USAGE as TUNNEL } from "../packages/tunnel/src/program/command-line.ts";
import { USAGE as ROUTER } from "../router/src/config/command-line.ts";

interface Program {
  readonly name: string;
  readonly task: string;
  readonly help: string;
  /** Page of the guide, relative to docs/reference. */
  readonly guide: string;
}

const PROGRAMS: readonly Program[] = [
  { name: "sallyport-controller", task: "The authority of a network.", help: CONTROLLER, guide: "../controller.md" },
  { name: "sallyport-router", task: "Carries the data.", help: ROUTER, guide: "../router.md" },
  { name: "sallyport-tunnel", task: "Connects programs that do not use the SDK.", help: TUNNEL, guide: "../tunnel.md" },
  { name: "sallyport-operator", task: "Runs networks on Kubernetes.", help: OPERATOR, guide: "../operator.md" },
];

/** The whole page. */
export async function commandReference(): Promise<string> {
  const commands = (await helpTexts()).map(
    ({ name, help }) => `### ${name}\n\n\`\`\`text\n${help.trimEnd()}\n\`\`\`\n`,
  );
  const sections = PROGRAMS.map(
    ({ name, task, help, guide }) =>
      `## ${name}\n\n${task} [Guide](${guide})\n\n\`\`\`text\n${help.trimEnd()}\n\`\`\`\n`,
  );
  return `# Commands

Generated from the help of each program. \`PROGRAM --help\` prints the same.

## Administer a network

The program \`sallyport\`. [Guide](../cli.md)

${commands.join("\n")}
${sections.join("\n")}`;
}
