import { readControllerConfigFile } from "@sallyport/controller-config";
import type { RunCommand } from "./command-line.ts";

/** Runs a controller, or several workers of it, until a signal. @returns the exit status */
export async function run(
  { file, replica, worker }: RunCommand,
  { env, productVersion }: { readonly env: NodeJS.ProcessEnv; readonly productVersion: string },
): Promise<number> {
  const read = await readControllerConfigFile(file, env, replica);
  if (worker === undefined && read.config.replica.workers > 1) {
    // What only starts others needs no controller in memory.
    const { runWorkers } = await import("../workers/run-workers.ts");
    return runWorkers({ file, replica, ...read });
  }
  const { runController } = await import("./run-controller.ts");
  return runController({ file, worker, ...read }, { env, productVersion });
}
