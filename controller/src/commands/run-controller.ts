import { pause } from "@sallyport/async";
import { formatProblem } from "@sallyport/config-file";
import { type ConfigRead, workerConfig } from "@sallyport/controller-config";
import { createLogger, type LevelledLogger } from "@sallyport/program/logging";
import type { Logger } from "@sallyport/wire";
import { Agent } from "@sallyport/wire/agent";
import { type Controller, startController } from "../controller.ts";
import { linkOfWorker } from "../workers/worker-link.ts";
import { ExitStatus, UsageError } from "./command-line.ts";
import { STOP_LIMIT_MS, untilStopped } from "./process-signals.ts";

/**
 * Runs a controller until SIGINT or SIGTERM, or until it loses its database to another. After a signal it serves on for `api.drain`. Then it stops within
 * 20 seconds; a second signal ends the process at once. SIGHUP reloads certificates and keys. A worker also stops when the process that has started it asks for it, or is gone. @returns the exit status
 */
export async function runController(
  { file, worker, ...read }: ConfigRead & { readonly file: string; readonly worker: number | undefined },
  { env, productVersion }: { readonly env: NodeJS.ProcessEnv; readonly productVersion: string },
): Promise<number> {
  const { config, warnings, placeOf } = read;
  const link = worker === undefined ? undefined : linkOfWorker();
  if (worker !== undefined && link === undefined) {
    throw new UsageError("--worker is for processes that run starts itself: set replica.workers");
  }
  const log = createLogger({
    ...config.log,
    ...(worker !== undefined && { fields: { worker: workerConfig(config, worker).replica.id } }),
  });
  // The process that starts workers has said them.
  if (worker === undefined) for (const warning of warnings) log.warn({ file }, formatProblem(warning, file));
  let controller: Controller | undefined;
  let agent: Agent | undefined;
  const onReload = () => {
    log.info({}, "looking at certificates and keys again");
    controller
      ?.reload()
      .catch((error: unknown) => log.error({ error }, "certificates and keys could not be read again"));
  };
  const running = untilStopped({ onReload, log });
  link?.onStop((reason) => {
    log.info({ reason }, "stopping");
    running.stop(reason === "asked to stop" ? "asked" : ExitStatus.Done);
  });
  let status: number;
  try {
    controller = await startController({
      ...{ config, worker, file, placeOf, env, productVersion, log },
      onLost: (error) => {
        log.error({ holder: error.holder }, error.message);
        running.stop(ExitStatus.Held);
      },
    });
    agent = await startAgent(controller.id, productVersion, log);
    link?.ready();
    status = await running.stopped;
    if (running.isAsked && config.api.drain > 0) {
      controller.drain();
      await pause(config.api.drain);
    }
  } finally {
    await agent?.close();
    if (controller) await stopInTime(controller, log);
    running.close();
    link?.close();
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

async function stopInTime(controller: Controller, log: Logger): Promise<void> {
  const timer = setTimeout(() => {
    log.error({ milliseconds: STOP_LIMIT_MS }, "the controller did not stop in time: ending it");
    process.exit(ExitStatus.Failed);
  }, STOP_LIMIT_MS);
  await controller.stop();
  clearTimeout(timer);
}
