#!/usr/bin/env -S node --max-semi-space-size=16 --heap-growing-percent=50
import { ConfigError } from "@sallyport/config-file";
import { productVersion } from "@sallyport/program/build-info";
import { createLogger } from "@sallyport/program/logging";
import { withoutSecrets } from "@sallyport/program/secret-texts";
import { PROTOCOL_VERSION } from "@sallyport/wire";
import {
  type CommandContext,
  type ControllerCommand,
  ExitStatus,
  parseCommandLine,
  USAGE,
  UsageError,
} from "./commands/command-line.ts";
import { DatabaseHeldError } from "./store/postgres/holder-lock.ts";

/** Runs one command line to its end and answers the exit status. An error becomes one message on standard error. */
export async function main(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  try {
    return await execute(parseCommandLine(args), env);
  } catch (error) {
    complain(withoutSecrets((error as Error).message ?? String(error)));
    if (error instanceof UsageError) complain("Try sallyport-controller --help");
    if (env.SALLYPORT_DEBUG) complain(withoutSecrets(String((error as Error).stack)));
    return statusOf(error);
  }
}

async function execute(command: ControllerCommand, env: NodeJS.ProcessEnv): Promise<number> {
  switch (command.command) {
    case "help":
      process.stdout.write(USAGE);
      return ExitStatus.Done;
    case "version":
      process.stdout.write(`sallyport-controller ${productVersion(import.meta.url)} (protocol ${PROTOCOL_VERSION})\n`);
      return ExitStatus.Done;
    case "init": {
      const { initNetwork } = await import("./commands/init.ts");
      await initNetwork(command, commandContext(env));
      return ExitStatus.Done;
    }
    case "backup":
    case "restore": {
      const { backupNetwork, restoreNetwork } = await import("./commands/backup.ts");
      await (command.command === "backup" ? backupNetwork : restoreNetwork)(command, commandContext(env));
      return ExitStatus.Done;
    }
    case "admin": {
      const { adminCommand } = await import("./commands/admin.ts");
      const prompt = (text: string) => process.stderr.write(text);
      await adminCommand(command, { ...commandContext(env), input: process.stdin, prompt });
      return ExitStatus.Done;
    }
    case "pki": {
      const { pkiCommand } = await import("./commands/pki.ts");
      await pkiCommand(command, commandContext(env));
      return ExitStatus.Done;
    }
    case "run": {
      const { run } = await import("./commands/run.ts");
      return run(command, { env, productVersion: productVersion(import.meta.url) });
    }
  }
}

function commandContext(env: NodeJS.ProcessEnv): CommandContext {
  return { env, say: (line) => process.stdout.write(`${line}\n`), log: createLogger({ level: "warn" }) };
}

function statusOf(error: unknown): number {
  if (error instanceof UsageError) return ExitStatus.Usage;
  if (error instanceof ConfigError) return ExitStatus.Configuration;
  if (error instanceof DatabaseHeldError) return ExitStatus.Held;
  return ExitStatus.Failed;
}

function complain(text: string): void {
  process.stderr.write(`sallyport-controller: ${text}\n`);
}

if (import.meta.main) {
  // A reader of the output may stop reading (`init | head`): the command continues.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
  process.exitCode = await main(process.argv.slice(2), process.env);
}
