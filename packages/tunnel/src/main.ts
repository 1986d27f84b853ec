#!/usr/bin/env node
import { errorText } from "@sallyport/async";
import { productVersion } from "@sallyport/program/build-info";
import { createLogger, type LevelledLogger } from "@sallyport/program/logging";
import { logSettings } from "@sallyport/program/logging/level";
import { PROTOCOL_VERSION } from "@sallyport/wire";
import { TerminalUser } from "./login/terminal.ts";
import { type ProgramCommand, parseCommand, USAGE } from "./program/command-line.ts";
import { enrollCommand, isEnrolled, joinCommand } from "./program/identity-files.ts";
import { tunnelCommand } from "./program/tunnel-command.ts";

/** Stopping takes at most this long beyond the draining; then the process ends anyway. */
const STOP_LIMIT_MS = 10_000;
/** Ends that come from what the program was given, not from the network. */
const SETUP_ERRORS = ["SetupError", "IdentityFileError"];
const SETUP_CODES = ["PROXY_SERVICE_INVALID"];

async function main(command: ProgramCommand): Promise<number> {
  switch (command.name) {
    case "help":
      if (command.problem !== undefined) process.stderr.write(`sallyport-tunnel: ${command.problem}\n\n`);
      (command.problem === undefined ? process.stdout : process.stderr).write(USAGE);
      return command.problem === undefined ? 0 : 2;
    case "version":
      process.stdout.write(`sallyport-tunnel ${productVersion(import.meta.url)} (protocol ${PROTOCOL_VERSION})\n`);
      return 0;
    case "enroll":
    case "join": {
      const { output } = command;
      if (command.ifNeeded && (await isEnrolled(output))) {
        process.stdout.write(`the identity is in ${output} already\n`);
        return 0;
      }
      if (command.name === "enroll") await enrollCommand(command.jwtFile, output);
      else await joinCommand(command, new TerminalUser(), new AbortController().signal);
      process.stdout.write(`the identity is in ${output}; use it with: sallyport-tunnel run -i ${output}\n`);
      return 0;
    }
    case "tunnel": {
      const log = createLogger(logSettings(process.env, command));
      const stop = new AbortController();
      for (const signal of ["SIGTERM", "SIGINT"] as const) {
        process.on(signal, () => onSignal(signal, stop, command.drainMs, log));
      }
      log.info(
        { version: productVersion(import.meta.url), protocol: PROTOCOL_VERSION, mode: command.mode.name },
        "the tunneler starts",
      );
      await tunnelCommand(command, log, stop.signal);
      log.info({}, "stopped");
      return 0;
    }
  }
}

/** The first signal stops in order, the second at once. */
function onSignal(signal: NodeJS.Signals, stop: AbortController, drainMs: number, log: LevelledLogger): void {
  if (stop.signal.aborted) {
    log.warn({ signal }, "asked twice; ending now");
    process.exit(1);
  }
  stop.abort(new Error(`${signal} was received`));
  const limit = setTimeout(() => {
    log.error({}, "stopping took too long; ending now");
    process.exit(1);
  }, drainMs + STOP_LIMIT_MS);
  limit.unref();
}

main(parseCommand(process.argv.slice(2))).then(
  (code) => {
    process.exitCode = code;
    // Whatever is still open must not keep a stopped tunneler alive.
    setTimeout(() => process.exit(code), 500).unref();
  },
  (error: unknown) => {
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const text = errorText(error);
    process.stderr.write(`sallyport-tunnel: ${text}${code === "" ? "" : ` [${code}]`}\n`);
    const isSetup = error instanceof Error && (SETUP_ERRORS.includes(error.name) || SETUP_CODES.includes(code));
    process.exit(isSetup ? 2 : 1);
  },
);
