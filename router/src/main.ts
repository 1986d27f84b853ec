#!/usr/bin/env node
import { errorText } from "@sallyport/async";
import "./lifecycle/young-generation.ts";
import { readFile } from "node:fs/promises";
import { ConfigError, formatPath, formatProblem } from "@sallyport/config-file";
import { productVersion } from "@sallyport/program/build-info";
import { createLogger, type LevelledLogger } from "@sallyport/program/logging";
import { logSettings } from "@sallyport/program/logging/level";
import { type LoadedRouterConfig, loadRouterConfig } from "@sallyport/router-config";
import { IdentityError, PROTOCOL_VERSION } from "@sallyport/wire";
import { status } from "./agent/status.ts";
import { checkRouter } from "./config/check.ts";
import { parseCommand, type RouterCommand, USAGE } from "./config/command-line.ts";
import { createConfig } from "./config/create-config.ts";
import { enrollIfNeeded, enrollRouter } from "./config/enroll.ts";
import { formatRemark, idleRemarks } from "./config/remark.ts";
import { coverAdvertised, extendRouter } from "./lifecycle/extend.ts";
import { endpointsFileOf, startRouter } from "./router.ts";

const baseDir = process.cwd();
/** Stopping takes at most this long; then the process ends anyway. */
const STOP_LIMIT_MS = 10_000;
const HOW_TO_ENROLL = "enroll it with: sallyport-router enroll <router.yml> --jwt <file>";

async function main(command: RouterCommand): Promise<number> {
  switch (command.name) {
    case "help":
      if (command.problem === undefined) {
        process.stdout.write(USAGE);
        return 0;
      }
      process.stderr.write(`sallyport-router: ${command.problem}\n\n${USAGE}`);
      return 2;
    case "version":
      process.stdout.write(`sallyport-router ${productVersion(import.meta.url)} (protocol ${PROTOCOL_VERSION})\n`);
      return 0;
    case "create-config":
      process.stdout.write(createConfig(command));
      return 0;
    case "check":
      return check(command.file);
    case "enroll":
      return enroll(command);
    case "extend":
      return extend(command);
    case "status":
      process.stdout.write(await status(command));
      return 0;
    case "run":
      return run(command);
  }
}

async function run(command: Extract<RouterCommand, { name: "run" }>): Promise<number> {
  const log = createLogger(logSettings(process.env, command));
  const { config, placeOf, idle } = await load(command.file, log);
  for (const remark of idleRemarks(idle)) {
    log.warn({ key: formatPath(remark.path) }, formatRemark(remark, { file: command.file, placeOf }));
  }
  const stop = stopSignals();
  const version = productVersion(import.meta.url);
  const agent = {
    setLogLevel: (level: string) => {
      log.level = level;
    },
    shutDown: () => process.kill(process.pid, "SIGTERM"),
  };
  const options = { config, configFile: command.file, placeOf, baseDir, log, extend: command.extend, version, agent };
  const router = await startRouter(options).catch((error: unknown) => {
    if (!(error instanceof IdentityError) || error.code !== "IDENTITY_UNREADABLE") throw error;
    throw new IdentityError(error.code, `${error.message}; if the router is not enrolled yet, ${HOW_TO_ENROLL}`, {
      cause: error,
    });
  });
  log.info({ routerId: router.id, version, protocol: PROTOCOL_VERSION }, "the router is running");
  const failed = router.online.then(
    () => new Promise<never>(() => {}),
    (error: unknown) => error,
  );
  const outcome = await Promise.race([stop.first, failed]);
  if (typeof outcome === "string") {
    log.info({ signal: outcome, drainTimeoutMs: config.shutdown.drainTimeout }, "stopping; again to stop at once");
    await router.drain(stop.second);
  }
  const limit = setTimeout(() => {
    log.error({}, "stopping took too long; ending now");
    process.exit(1);
  }, STOP_LIMIT_MS);
  limit.unref();
  await router.close();
  if (typeof outcome !== "string") throw outcome;
  if (stop.second.aborted) {
    log.warn({}, "stopped at once");
    return 1;
  }
  log.info({}, "stopped");
  return 0;
}

async function check(file: string): Promise<number> {
  const { notes, problems } = await checkRouter(file, baseDir, (config) => endpointsFileOf(config, file, baseDir));
  for (const note of notes) process.stdout.write(`note: ${note}\n`);
  for (const problem of problems) process.stdout.write(`error: ${problem}\n`);
  process.stdout.write(problems.length === 0 ? `${file} is valid\n` : `${file} cannot be used\n`);
  return problems.length === 0 ? 0 : 2;
}

async function enroll(command: Extract<RouterCommand, { name: "enroll" }>): Promise<number> {
  const { file, jwtFile, ifNeeded, expectId, configuredEndpoints, algorithm } = command;
  const log = createLogger(logSettings(process.env, command));
  const { config } = await load(file, log);
  const options = {
    config,
    baseDir,
    log,
    endpointsFile: endpointsFileOf(config, file, baseDir),
    configuredEndpoints,
    expectId,
    algorithm,
  };
  const { routerId, enrolled } = ifNeeded
    ? await enrollIfNeeded({ ...options, jwtFile })
    : { ...(await enrollRouter({ ...options, jwt: await readToken(jwtFile ?? "") })), enrolled: true };
  const isRenewed = !enrolled && (await coverAdvertised({ config, configFile: file, baseDir, log }));
  const already = isRenewed ? "was enrolled already and has new certificates" : "was enrolled already";
  const what = enrolled ? "is enrolled" : already;
  process.stdout.write(`router ${routerId} ${what}; start it with: sallyport-router run ${file}\n`);
  return 0;
}

async function extend(command: Extract<RouterCommand, { name: "extend" }>): Promise<number> {
  const log = createLogger(logSettings(process.env, command));
  const { config } = await load(command.file, log);
  const { validTo, by } = await extendRouter({ config, configFile: command.file, baseDir, log });
  const who = by === "running" ? "the running router has renewed its certificates" : "the certificates are renewed";
  process.stdout.write(`${who}; they are valid until ${validTo}\n`);
  return 0;
}

async function load(file: string, log: LevelledLogger): Promise<LoadedRouterConfig> {
  const loaded = await loadRouterConfig(file);
  for (const warning of loaded.warnings) log.warn({ key: warning.path }, formatProblem(warning, file));
  return loaded;
}

async function readToken(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new Error(`the token file of --jwt cannot be read: ${errorText(cause)}`, { cause });
  }
}

/** The first signal to stop, and what is aborted by the second. */
function stopSignals(): { readonly first: Promise<NodeJS.Signals>; readonly second: AbortSignal } {
  const second = new AbortController();
  let count = 0;
  const first = new Promise<NodeJS.Signals>((resolve) => {
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      process.on(signal, () => {
        resolve(signal);
        if (++count > 1) second.abort();
      });
    }
  });
  return { first, second: second.signal };
}

main(parseCommand(process.argv.slice(2))).then(
  (code) => {
    process.exitCode = code;
    // What is still open, such as the socket of a client, must not keep a stopped router alive.
    setTimeout(() => process.exit(code), 500).unref();
  },
  (error: unknown) => {
    const code = error instanceof Error && "code" in error ? ` [${String(error.code)}]` : "";
    process.stderr.write(`sallyport-router: ${errorText(error)}${code}\n`);
    process.exit(error instanceof ConfigError ? 2 : 1);
  },
);
