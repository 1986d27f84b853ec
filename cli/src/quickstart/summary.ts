/** What the user of a new network reads. */
import { join, resolve } from "node:path";
import type { CommandContext } from "../context.ts";
import { writeOwn } from "../network/own-files.ts";
import { table } from "../output/table.ts";
import { bold, hasColours } from "../terminal/screen.ts";
import { visible } from "../terminal/visible.ts";
import type { Exposure } from "./exposure.ts";
import { hostNameOf, type MachineToken } from "./network-entities.ts";
import type { Places } from "./places.ts";

export interface Summary {
  /** Name of the saved login. */
  readonly network: string;
  readonly places: Places;
  readonly tokenFolder: string;
  readonly services: readonly (Exposure & { readonly answers: boolean })[];
  readonly tokens: readonly MachineToken[];
  readonly isQr: boolean;
}

/** Writes the tokens into files, and prints what there is and what to do next. */
export async function showSummary(summary: Summary, context: CommandContext): Promise<void> {
  const { network, places, tokenFolder, tokens, isQr } = summary;
  const { stdout, env } = context;
  const title = (text: string): string => `\n${bold(text, hasColours(stdout, env))}\n`;
  const parts = [title("Services"), await serviceLines(summary.services)];
  for (const token of tokens) {
    const file = join(resolve(tokenFolder), `${token.name}.jwt`);
    await writeOwn(file, `${token.jwt}\n`);
    parts.push(
      title(`On another machine, as ${token.name}: the token works once, until ${token.until.toISOString()}`),
      ...joinLines(token.jwt, visible(file), stdout.isTTY === true),
    );
    if (isQr) {
      const { qrCode } = await import("./qr-code.ts");
      parts.push(await qrCode(token.jwt, context));
    }
  }
  parts.push(
    title("Here, in another terminal"),
    `  sallyport get identities            (network '${network}' is logged in; the password is in ${visible(places.passwordFile)})\n`,
    "  sallyport quickstart --help         (how to add services)\n",
    `\nThe network runs until Ctrl-C, and 'sallyport quickstart' goes on with it. Keep a copy of ${visible(join(places.controllerFolder, "secret.key"))}.\n`,
  );
  for (const part of parts) stdout.write(part);
}

async function serviceLines(services: Summary["services"]): Promise<string> {
  if (services.length === 0) return "  none yet: stop, and start again with --expose PORT, such as --expose web=8080\n";
  const rows = services.map(({ name, host, port, answers }) => [
    `  ${name}`,
    `${host}:${port}`,
    answers ? `${hostNameOf(name)}:${port}` : "no program listens there yet",
  ]);
  return await table(["", "", ""], rows, { hasHeading: false });
}

/** A log, which others may read, gets no token. */
function joinLines(token: string, file: string, isTerminal: boolean): string[] {
  if (!isTerminal) return [`  sallyport quickstart --join FILE, a copy of ${file}\n`];
  return [
    `  sallyport quickstart --join ${token}\n`,
    `  (the token is in ${file}, too: copy the file, and give --join FILE)\n`,
  ];
}
