import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { formatProblem } from "@sallyport/config-file";
import { type ConfigRead, type ReplicaOptions, workerConfig } from "@sallyport/controller-config";
import { createLogger } from "@sallyport/program/logging";
import { type HostPort, listen } from "@sallyport/wire";
import { ExitStatus } from "../commands/command-line.ts";
import { STOP_LIMIT_MS, untilStopped } from "../commands/process-signals.ts";
import { listening } from "../config/listening.ts";
import { listenSettings } from "../config/settings.ts";
import { Workers } from "./workers.ts";

/** What a worker gets beyond its own limit before it is killed. */
const MARGIN_MS = 5_000;

/**
 * Runs the workers of a configuration as processes until SIGINT or SIGTERM. After a signal its workers serve on for `api.drain`, and stop within 25 seconds; a second signal kills the workers. SIGHUP is passed on.
 * Source: docs/controller/replicas.md, "Use more than one core".
 * @returns the exit status
 */
export async function runWorkers(of: {
  readonly file: string;
  readonly replica: ReplicaOptions;
  readonly config: ConfigRead["config"];
  readonly warnings: ConfigRead["warnings"];
}): Promise<number> {
  const { file, replica, config, warnings } = of;
  const log = createLogger(config.log);
  for (const warning of warnings) log.warn({ file }, formatProblem(warning, file));
  const names = Array.from(
    { length: config.replica.workers },
    (_, at) => workerConfig(config, at + 1).replica.id ?? "",
  );
  // The workers listen in a way that lets others join them: a foreign program there would get a part of the connections.
  const { api } = listenSettings(config);
  await listening(api, file, () => beFree(api.at));
  const options = Object.entries(replica).map(([name, value]) => `--${name}=${value}`);
  const [program = ""] = process.argv.slice(1);
  const workers = new Workers({
    names,
    spawn: (index) =>
      spawn(process.execPath, [...process.execArgv, program, "run", file, ...options, `--worker=${index + 1}`], {
        stdio: ["ignore", "inherit", "inherit", "ipc"],
      }),
    stopMs: config.api.drain + STOP_LIMIT_MS + MARGIN_MS,
    log,
  });
  const running = untilStopped({
    log,
    onReload: () => workers.signal("SIGHUP"),
    onSecondSignal: () => workers.signal("SIGKILL"),
  });
  log.info({ workers: names }, "starting workers");
  try {
    const early = await Promise.race([workers.start(), running.stopped.then(() => undefined)]);
    if (early !== undefined) {
      log.error({ status: early }, "a worker ended before it was ready: stopping");
      await workers.stop();
      return early;
    }
    if (!running.isStopped) log.info({ workers: names }, "all workers are ready");
    const status = await running.stopped;
    const isInOrder = await workers.stop();
    log.info({}, "all workers have stopped");
    return isInOrder ? status : ExitStatus.Failed;
  } finally {
    running.close();
  }
}

/** @throws the system's error when another program listens there */
async function beFree({ host, port }: HostPort): Promise<void> {
  const server = createServer();
  await listen(server, { host, port }, () => undefined);
  await new Promise<void>((resolve) => server.close(() => resolve()));
}
