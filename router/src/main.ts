#!/usr/bin/env node
import { readFile } from "node:fs/promises";
import { formatProblem, type LoadedRouterConfig, loadRouterConfig } from "@sallyport/router-config";
import { IdentityError, PROTOCOL_VERSION } from "@sallyport/wire";
import { type Logger as Pino, pino } from "pino";
import { uncoveredHosts } from "./config/advertise.ts";
import { type Command, parseCommand, USAGE } from "./config/command-line.ts";
import { createConfig } from "./config/create-config.ts";
import { enrollRouter } from "./config/enroll.ts";
import { inactiveSettings } from "./config/inactive.ts";
import { RouterIdentity } from "./config/router-identity.ts";
import { endpointsFileOf, startRouter } from "./router.ts";

const baseDir = process.cwd();
/** Stopping takes at most this long; then the process ends anyway. */
const STOP_LIMIT_MS = 10_000;
const HOW_TO_ENROLL = "enroll it with: sallyport-router enroll <router.yml> --jwt <file>";

async function main(command: Command): Promise<number> {
  switch (command.name) {
    case "help":
      if (command.problem !== undefined) process.stderr.write(`sallyport-router: ${command.problem}\n\n`);
      (command.problem === undefined ? process.stdout : process.stderr).write(USAGE);
      return command.problem === undefined ? 0 : 2;
    case "version":
      process.stdout.write(`sallyport-router ${await ownVersion()} (protocol ${PROTOCOL_VERSION})\n`);
      return 0;
    case "create-config":
      process.stdout.write(createConfig(command));
      return 0;
    case "check":
      return check(command.file);
    case "enroll": {
      const log = logger(command.verbose);
      const { config } = await load(command.file, log);
      const jwt = await readToken(command.jwtFile);
      const endpointsFile = endpointsFileOf(config, command.file, baseDir);
      const { routerId } = await enrollRouter({ config, jwt, baseDir, log, endpointsFile });
      process.stdout.write(`router ${routerId} is enrolled; start it with: sallyport-router run ${command.file}\n`);
      return 0;
    }
    case "run":
      return run(command);
  }
}

async function run(command: Extract<Command, { name: "run" }>): Promise<number> {
  const log = logger(command.verbose);
  const { config } = await load(command.file, log);
  const stop = stopSignal();
  const router = await startRouter({ config, configFile: command.file, baseDir, log, extend: command.extend }).catch(
    (error: unknown) => {
      if (!(error instanceof IdentityError) || error.code !== "IDENTITY_UNREADABLE") throw error;
      throw new IdentityError(error.code, `${error.message}; if the router is not enrolled yet, ${HOW_TO_ENROLL}`, {
        cause: error,
      });
    },
  );
  log.info({ routerId: router.id, version: await ownVersion(), protocol: PROTOCOL_VERSION }, "the router is running");
  const failed = router.online.then(
    () => new Promise<never>(() => {}),
    (error: unknown) => error,
  );
  const outcome = await Promise.race([stop, failed]);
  const limit = setTimeout(() => {
    log.error({}, "stopping took too long; ending now");
    process.exit(1);
  }, STOP_LIMIT_MS);
  limit.unref();
  if (typeof outcome === "string") log.info({ signal: outcome }, "stopping");
  await router.close();
  if (typeof outcome !== "string") throw outcome;
  log.info({}, "stopped");
  return 0;
}

async function check(file: string): Promise<number> {
  const { config, warnings } = await loadRouterConfig(file);
  const notes = warnings.map((warning) => formatProblem(warning, file));
  notes.push(...inactiveSettings(config).map((line) => `without effect: ${line}`));
  if (config.csr === undefined)
    notes.push("without a csr section the router can neither enroll nor renew its certificates");
  const log = pino({ level: "silent" });
  let problems: string[] = [];
  try {
    const identity = await RouterIdentity.load(config.identity, baseDir, log);
    problems = uncoveredHosts(config, identity.current);
    notes.push(`router ${identity.current.id}, certificate valid until ${identity.current.leaf.validTo}`);
  } catch (error) {
    notes.push(`not enrolled yet: ${messageOf(error)}; ${HOW_TO_ENROLL}`);
  }
  for (const note of notes) process.stdout.write(`note: ${note}\n`);
  for (const problem of problems) process.stdout.write(`error: ${problem}\n`);
  process.stdout.write(problems.length === 0 ? `${file} is valid\n` : `${file} cannot be used\n`);
  return problems.length === 0 ? 0 : 2;
}

async function load(file: string, log: Pino): Promise<LoadedRouterConfig> {
  const loaded = await loadRouterConfig(file);
  for (const warning of loaded.warnings) log.warn({ key: warning.path }, formatProblem(warning, file));
  return loaded;
}

async function readToken(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new Error(`the token file of --jwt cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** The same shape of lines as the controller's: level by name, time in ISO 8601, message last. */
function logger(verbose: boolean): Pino {
  const level = verbose ? "debug" : process.env.SALLYPORT_LOG_LEVEL || "info";
  if (!Object.hasOwn(pino.levels.values, level)) {
    throw new Error(`SALLYPORT_LOG_LEVEL must be one of debug, info, warn, error, found ${level}`);
  }
  return pino({
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
  });
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function stopSignal(): Promise<NodeJS.Signals> {
  return new Promise((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve(signal));
  });
}

async function ownVersion(): Promise<string> {
  const text = await readFile(new URL("../package.json", import.meta.url), "utf8");
  const { version } = JSON.parse(text) as { version: string };
  return version;
}

main(parseCommand(process.argv.slice(2))).then(
  (code) => {
    process.exitCode = code;
    // Whatever is still open (a socket of a stranger) must not keep a stopped router alive.
    setTimeout(() => process.exit(code), 500).unref();
  },
  (error: unknown) => {
    const code = error instanceof Error && "code" in error ? ` [${String(error.code)}]` : "";
    process.stderr.write(`sallyport-router: ${messageOf(error)}${code}\n`);
    process.exit(error instanceof Error && error.name === "RouterConfigError" ? 2 : 1);
  },
);
