import { access, constants, open, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { file as entryOf } from "@sallyport/program/archive/entry";
import { tarball } from "@sallyport/program/archive/tarball";
import { type ReportPart, reportParts } from "../bugreport/report.ts";
import { CommandError, UsageError } from "../errors.ts";
import { table } from "../output/table.ts";
import { widthOf } from "../terminal/screen.ts";
import { visible } from "../terminal/visible.ts";
import type { Configure } from "./configure.ts";
import { type NetworkOption, once, withNetworkOption } from "./shared-options.ts";

interface BugreportOptions extends NetworkOption {
  readonly output?: string;
  readonly config?: readonly string[];
  readonly log?: readonly string[];
  readonly journal: boolean;
}

const FILE_MODE = 0o600;

const HELP = `
Packs what helps to find a fault: versions, this machine, the networks that you are logged in to, their status and the inner state of controller and routers,
and the files that you name. The journal of systemd is asked for units whose names begin with 'sallyport'.

Sessions, tokens, passwords and private keys are taken out: by the names of keys, by their form, and wherever else a secret of these files occurs. Names of
identities, services and routers, and addresses stay. A file that is neither YAML nor JSON nor a log is left out. Look through the report before you pass it on;
only you can read the file.

Examples:
  sallyport bugreport
  sallyport bugreport -o report.tar.gz --config /etc/sallyport/router.yml --log /var/log/sallyport-router.log
`;

const several = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

export const configureBugreport: Configure = (command, context) => {
  command
    .description("Packs versions, state, configuration and logs for a report, without secrets.")
    .option("-o, --output <file>", "archive to write; sallyport-bugreport-TIME.tar.gz when absent", once("output"))
    .option("--config <file>", "configuration file to pack; may be given several times", several)
    .option("--log <file>", "log to pack the end of; may be given several times", several)
    .option("--no-journal", "leave out the journal of systemd");
  withNetworkOption(command)
    .addHelpText("after", HELP)
    .action(async ({ network, output, config = [], log = [], journal }: BugreportOptions) => {
      const now = new Date();
      const stamp = now.toISOString().replaceAll(/[-:]|\.\d+/g, "");
      if (output === "") throw new UsageError("-o needs the name of a file");
      const target = output ?? `sallyport-bugreport-${stamp}.tar.gz`;
      const version = command.parent?.version()?.replace("sallyport ", "") ?? "";
      await checkTarget(target);
      const parts = await reportParts({ network, configs: config, logs: log, hasJournal: journal, version }, context);
      const folder = `/sallyport-bugreport-${stamp}`;
      const contents = `${parts.map(({ path, what }) => `${path}: ${visible(what)}`).join("\n")}\n`;
      const entries = [...parts, { path: "README.txt", text: contents }].map(({ path, text }) =>
        entryOf(`${folder}/${path}`, text),
      );
      await write(target, tarball(entries, Math.floor(now.getTime() / 1_000)));
      context.stdout.write(await summary(target, parts, widthOf(context.stdout)));
    });
};

/** Before everything is gathered for nothing. */
async function checkTarget(target: string): Promise<void> {
  try {
    await access(dirname(target), constants.W_OK);
    await access(target);
  } catch (error) {
    if (isMissing(error, target)) return;
    throw cannotWrite(target, error);
  }
  throw cannotWrite(target, { code: "EEXIST" });
}

function isMissing(error: unknown, path: string): boolean {
  const { code, path: missing } = error as NodeJS.ErrnoException;
  return code === "ENOENT" && missing === path;
}

/** A new file: one that is there is never replaced, and none is left that is not whole. */
async function write(target: string, bytes: Uint8Array): Promise<void> {
  try {
    const handle = await open(target, "wx", FILE_MODE);
    try {
      await handle.writeFile(bytes);
    } catch (error) {
      await rm(target, { force: true });
      throw error;
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw cannotWrite(target, error);
  }
}

function cannotWrite(target: string, error: unknown): CommandError {
  const { code, message } = error as NodeJS.ErrnoException;
  const reasons: Readonly<Record<string, string>> = {
    EEXIST: "it exists: name another file with -o FILE",
    ENOENT: "its folder does not exist",
    ENOTDIR: "its folder is a file",
    EACCES: "the user of this program has no right to",
    ENOSPC: "the disk is full",
  };
  return new CommandError(`cannot write ${target}: ${reasons[code ?? ""] ?? message}`, undefined, { cause: error });
}

async function summary(target: string, parts: readonly ReportPart[], width: number | undefined): Promise<string> {
  const rows = parts.map(({ path, text, what }) => [path, String(Buffer.byteLength(text)), what]);
  const list = await table(["FILE", "BYTES", "WHAT"], rows, { width });
  return `${list}\nwrote ${visible(target)}, which only you can read. Sessions, tokens, passwords and private keys that were found are taken out;\nnames and addresses of your network are in it. Look through it before you pass it on: tar -xzOf ${visible(target)} | less\n`;
}
