#!/usr/bin/env -S node --max-opt=1 --max-semi-space-size=4 --heap-growing-percent=30
import { errorText } from "@sallyport/async";
import { productVersion } from "@sallyport/program/build-info";
import { withoutSecrets } from "@sallyport/program/secret-texts";
import { parseCommand, SettingsError, USAGE } from "./program/settings.ts";

async function main(args: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  const version = productVersion(import.meta.url);
  const command = parseCommand(args, env, version);
  switch (command.name) {
    case "help":
      process.stdout.write(USAGE);
      return 0;
    case "version":
      process.stdout.write(`sallyport-operator ${version}\n`);
      return 0;
    case "run": {
      const { run } = await import("./program/run.ts");
      return await run(command.settings, version);
    }
    case "wait": {
      const { wait } = await import("./program/run.ts");
      return await wait(command.settings, version);
    }
    case "check": {
      const { check } = await import("./program/run.ts");
      return await check(command.settings, version);
    }
    case "uninstall-check": {
      const { uninstallCheck } = await import("./program/run.ts");
      return await uninstallCheck(command.settings, version);
    }
  }
}

if (import.meta.main) {
  try {
    process.exitCode = await main(process.argv.slice(2), process.env);
  } catch (error) {
    const message = errorText(error);
    process.stderr.write(`sallyport-operator: ${withoutSecrets(message)}\n`);
    if (error instanceof SettingsError) process.stderr.write("Try sallyport-operator --help\n");
    process.exitCode = error instanceof SettingsError ? 2 : 1;
  }
}
