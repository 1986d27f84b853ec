import { ApiError } from "@sallyport/api/client";
import { Option } from "commander";
import type { CommandContext } from "../context.ts";
import { findEntity } from "../entities/find.ts";
import { CommandError, UsageError } from "../errors.ts";
import { kindNamed } from "../kinds/find-kind.ts";
import { ApiCaller } from "../network/api-caller.ts";
import { CLIENT_API, MANAGEMENT_API } from "../network/api-paths.ts";
import { authenticate } from "../network/authenticate.ts";
import { identityFile } from "../network/login-material.ts";
import { withNetwork } from "../network/open-network.ts";
import { documentText } from "../output/format.ts";
import { type WhyAnswer, whyText } from "../output/why-tree.ts";
import { bold, hasColours, widthOf } from "../terminal/screen.ts";
import type { Configure } from "./configure.ts";
import { type NetworkOption, type OutputOption, once, withNetworkOption, withOutputOption } from "./shared-options.ts";

interface WhyOptions extends NetworkOption, OutputOption {
  readonly type: "dial" | "bind";
  readonly identity?: string;
  readonly all?: true;
}

const HELP = `
The controller looks at everything from the login to the last failed dials, names what stands in the way first, and gives the command that fixes it. An
administrator asks about any identity. Everyone else asks about their own with --identity: the answer then says what they may know.

The exit status is 0 if the identity can reach the service, and 1 if it cannot.

Examples:
  sallyport why laptop web
  sallyport why laptop web --all
  sallyport why backend web --type bind
  sallyport why web --identity laptop.json
  sallyport why laptop web -o jsonpath=$.firstProblem.code
`;

export const configureWhy: Configure = (command, context) => {
  command
    .description("Says why an identity can or cannot reach a service.")
    .usage("IDENTITY SERVICE [OPTIONS]\n       sallyport why SERVICE --identity FILE [OPTIONS]")
    .argument("<names...>", "identity and service, by name or id; with --identity the service alone")
    .addOption(
      new Option("--type <type>", "to dial the service or to host it").choices(["dial", "bind"]).default("dial"),
    )
    .option("--identity <file>", "ask as the identity of this file, about itself", once("identity"))
    .option("--all", "show the parts of the checks that pass, too");
  withOutputOption(withNetworkOption(command), "table")
    .addHelpText("after", HELP)
    .action(async (names: readonly string[], options: WhyOptions) => {
      const answer =
        options.identity === undefined ? await asked(names, options, context) : await own(names, options, context);
      await show(answer, options, context);
      // Commands end with 1 by an error; this answer is none.
      if (!answer.allowed) {
        const what = options.type === "bind" ? "host" : "reach";
        throw new CommandError(`the identity cannot ${what} the service: see above`);
      }
    });
};

async function asked(
  names: readonly string[],
  { network, type }: WhyOptions,
  context: CommandContext,
): Promise<WhyAnswer> {
  const [identity, service, ...more] = names;
  if (identity === undefined || service === undefined || more.length > 0) {
    throw new UsageError("expected an identity and a service: sallyport why IDENTITY SERVICE");
  }
  const path = `${MANAGEMENT_API}/identities/${encodeURIComponent(identity)}/why/${encodeURIComponent(service)}`;
  return await withNetwork(network, context, async ({ caller }) => {
    try {
      return (await caller.json({ method: "GET", path, query: { type } })).data as WhyAnswer;
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
      await findEntity(kindNamed("identity"), identity, caller);
      await findEntity(kindNamed("service"), service, caller);
      throw new CommandError(
        `${caller.controller} knows both, but cannot say why: this needs a Sallyport controller newer than 0.1.0; 'sallyport version' shows which controller it is`,
      );
    }
  });
}

/** As the identity itself, in a session that ends with the command. */
async function own(
  names: readonly string[],
  { identity = "", type, network }: WhyOptions,
  context: CommandContext,
): Promise<WhyAnswer> {
  const [service, ...more] = names;
  if (service === undefined || more.length > 0) {
    throw new UsageError("with --identity expected the service alone: sallyport why SERVICE --identity FILE");
  }
  if (network !== undefined) throw new UsageError("--identity names the network, too: omit --network");
  const { controller, ca, cert, key } = await identityFile(identity, context);
  const caller = new ApiCaller({ controller, ca, cert, key }, context.signal);
  try {
    await authenticate(caller, { method: "cert" }, context);
    const path = `${CLIENT_API}/services/${encodeURIComponent(service)}/why`;
    return (await caller.json({ method: "GET", path, query: { type } })).data as WhyAnswer;
  } finally {
    await caller.json({ method: "DELETE", path: `${CLIENT_API}/current-api-session` }).catch(() => undefined);
    caller.close();
  }
}

async function show(answer: WhyAnswer, { output, all }: WhyOptions, { stdout, env }: CommandContext): Promise<void> {
  if (output.kind === "name") stdout.write(`${answer.firstProblem?.code ?? "ok"}\n`);
  else if (output.kind !== "table") stdout.write(await documentText(answer, output, stdout.isTTY === true));
  else {
    const width = output.isWide ? undefined : widthOf(stdout);
    const emphasis = (text: string) => bold(text, hasColours(stdout, env));
    stdout.write(await whyText(answer, { isComplete: all === true, width, emphasis }));
  }
}
