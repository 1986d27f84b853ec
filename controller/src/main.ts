#!/usr/bin/env -S node --max-semi-space-size=4
import { readFile } from "node:fs/promises";
import { ConfigError } from "@sallyport/controller-config";
import { PROTOCOL_VERSION } from "@sallyport/wire";
import { type Command, parseCommandLine, USAGE, UsageError } from "./commands/command-line.ts";
import { createLogger, withoutSecrets } from "./config/logging.ts";
import { DatabaseHeldError } from "./store/postgres/holder-lock.ts";

/** Exit statuses, as `--help` lists them. */
export const ExitStatus = { Done: 0, Failed: 1, Usage: 2, Configuration: 3, Held: 4 } as const;

/** Runs one command line to its end and answers the exit status. Everything that goes wrong is said on standard error in one message. */
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

async function execute(command: Command, env: NodeJS.ProcessEnv): Promise<number> {
  switch (command.command) {
    case "help":
      process.stdout.write(USAGE);
      return ExitStatus.Done;
    case "version":
      process.stdout.write(`sallyport-controller ${await productVersion()} (protocol ${PROTOCOL_VERSION})\n`);
      return ExitStatus.Done;
    case "init": {
      const { initNetwork } = await import("./commands/init.ts");
      await initNetwork(command, {
        env,
        say: (line) => process.stdout.write(`${line}\n`),
        log: createLogger("warn"),
      });
      return ExitStatus.Done;
    }
    case "backup":
    case "restore": {
      const { backupNetwork, restoreNetwork } = await import("./commands/backup.ts");
      const surroundings = { env, say: (line: string) => process.stdout.write(`${line}\n`), log: createLogger("warn") };
      if (command.command === "backup") await backupNetwork(command, surroundings);
      else await restoreNetwork(command, surroundings);
      return ExitStatus.Done;
    }
    case "admin": {
      const { adminCommand } = await import("./commands/admin.ts");
      await adminCommand(command, {
        env,
        input: process.stdin,
        prompt: (text) => process.stderr.write(text),
        say: (line) => process.stdout.write(`${line}\n`),
        log: createLogger("warn"),
      });
      return ExitStatus.Done;
    }
    case "pki": {
      const { pkiCommand } = await import("./commands/pki.ts");
      const say = (line: string) => process.stdout.write(`${line}\n`);
      await pkiCommand(command, { env, say, log: createLogger("warn") });
      return ExitStatus.Done;
    }
    case "run": {
      const { runController } = await import("./commands/run.ts");
      return runController(command.file, { env, productVersion: await productVersion() });
    }
  }
}

function statusOf(error: unknown): number {
  if (error instanceof UsageError) return ExitStatus.Usage;
  if (error instanceof ConfigError) return ExitStatus.Configuration;
  if (error instanceof DatabaseHeldError) return ExitStatus.Held;
  return ExitStatus.Failed;
}

async function productVersion(): Promise<string> {
  const text = await readFile(new URL("../package.json", import.meta.url), "utf8");
  return String((JSON.parse(text) as { version: string }).version);
}

function complain(text: string): void {
  process.stderr.write(`sallyport-controller: ${text}\n`);
}

if (import.meta.main) {
  // Whoever reads our output may stop reading (`init | head`): what we do goes on all the same.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => undefined);
  process.exitCode = await main(process.argv.slice(2), process.env);
}
