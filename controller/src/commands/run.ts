import { pause } from "@sallyport/async";
import { formatProblem } from "@sallyport/config-file";
import { type ReplicaOptions, readControllerConfigFile } from "@sallyport/controller-config";
import { createLogger, type LevelledLogger } from "@sallyport/program/logging";
import type { Logger } from "@sallyport/wire";
import { Agent } from "@sallyport/wire/agent";
import { type Controller, startController } from "../controller.ts";
import { ExitStatus } from "./command-line.ts";

const STOP_LIMIT_MS = 20_000;

/**
 * Runs a controller until SIGINT or SIGTERM, or until it loses its database to another. After a signal it serves on for `api.drain`. Then it stops within 20 seconds; a second signal ends the process at once.
 * SIGHUP reloads certificates and keys. @returns the exit status
 */
export async function runController(
  { file, replica }: { readonly file: string; readonly replica: ReplicaOptions },
  { env, productVersion }: { readonly env: NodeJS.ProcessEnv; readonly productVersion: string },
): Promise<number> {
  const { config, warnings, placeOf } = await readControllerConfigFile(file, env, replica);
  const log = createLogger(config.log);
  for (const warning of warnings) log.warn({ file }, formatProblem(warning, file));
  let controller: Controller | undefined;
  let agent: Agent | undefined;
  let status: number = ExitStatus.Done;
  const { promise: asked, resolve: ask } = Promise.withResolvers<void>();
  let isSignalled = false;
  const onSignal = (signal: NodeJS.Signals) => {
    log.info({ signal }, "stopping");
    isSignalled = true;
    for (const name of SIGNALS) process.off(name, onSignal).on(name, () => process.exit(ExitStatus.Failed));
    ask();
  };
  for (const name of SIGNALS) process.on(name, onSignal);
  const onReload = () => {
    log.info({}, "looking at certificates and keys again");
    controller
      ?.reload()
      .catch((error: unknown) => log.error({ error }, "certificates and keys could not be read again"));
  };
  process.on("SIGHUP", onReload);
  // An unhandled error leaves the process in an unknown state: stop in order, and let the supervisor start it again.
  const onFault = (error: unknown) => {
    log.error({ error }, "an error that nothing handled: stopping");
    status = ExitStatus.Failed;
    ask();
  };
  for (const name of FAULTS) process.on(name, onFault);
  try {
    controller = await startController({
      config,
      file,
      placeOf,
      env,
      productVersion,
      log,
      onLost: (error) => {
        log.error({ holder: error.holder }, error.message);
        status = ExitStatus.Held;
        ask();
      },
    });
    agent = await startAgent(controller.id, productVersion, log);
    await asked;
    if (isSignalled && config.api.drain > 0) {
      controller.drain();
      await pause(config.api.drain);
    }
  } finally {
    await agent?.close();
    if (controller) await stopInTime(controller, log);
    for (const name of SIGNALS) process.removeAllListeners(name);
    process.off("SIGHUP", onReload);
    for (const name of FAULTS) process.off(name, onFault);
  }
  log.info({}, "controller stopped");
  return status;
}

/** The socket on which local tools reach this process (docs/controller.md, "Local tools"). */
export function startAgent(
  id: string,
  version: string,
  log: LevelledLogger,
  path?: string,
): Promise<Agent | undefined> {
  const setLogLevel = (level: string) => {
    log.level = level;
  };
  return Agent.start({ application: { info: { type: "controller", id, version }, setLogLevel }, log, path });
}

const SIGNALS = ["SIGINT", "SIGTERM"] as const;
const FAULTS = ["uncaughtException", "unhandledRejection"] as const;

async function stopInTime(controller: Controller, log: Logger): Promise<void> {
  const timer = setTimeout(() => {
    log.error({ milliseconds: STOP_LIMIT_MS }, "the controller did not stop in time: ending it");
    process.exit(ExitStatus.Failed);
  }, STOP_LIMIT_MS);
  await controller.stop();
  clearTimeout(timer);
}
