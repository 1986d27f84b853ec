import { resolve } from "node:path";
import type { Controllers } from "../control/controllers/controllers.ts";
import type { Edge } from "../edge/edge-listener.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { LinkManager } from "../link/link-manager.ts";
import { forwardingTables } from "../observe/forwarding-tables.ts";
import { PipeTraces } from "../observe/pipe-traces.ts";
import { Profiles } from "../observe/profiles.ts";
import { TraceFile } from "../observe/trace-file.ts";
import type { Assembly } from "./context.ts";
import { RouterStartError } from "./start-error.ts";

/** The profiles of `profile`; the first part to be started. @returns ends the profile of the CPU */
export async function profiles({ config, baseDir, log, stops }: Assembly): Promise<() => Promise<void>> {
  if (config.profile === undefined) return async () => {};
  const started = await Profiles.start({ ...config.profile, baseDir, log });
  stops.push(() => started.close());
  return () => started.endCpu();
}

/** The file of `trace`, and traces that operators switch. @throws RouterStartError when the file cannot be opened */
export async function traces(
  { config, routerId, baseDir, log, stops }: Assembly,
  o: { controllers: Controllers; links: LinkManager; edge: () => Edge | undefined },
): Promise<void> {
  const { controllers, links } = o;
  if (config.trace !== undefined) {
    const path = resolve(baseDir, config.trace.path);
    try {
      const file = await TraceFile.open({ path, routerId, controllers, log });
      stops.push(() => file.close());
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      const problem = { path: ["trace", "path"], text: `the file cannot be written: ${why}` };
      throw new RouterStartError([problem], undefined, { cause });
    }
  }
  const pipes = new PipeTraces({
    routerId,
    controllers,
    pipes: () => [
      ...links.links().map(({ id, channel }) => ({ name: `link/${id}`, channel })),
      ...(o.edge()?.sdks() ?? []).map(({ channel }) => ({ name: `edge/${channel.connectionId}`, channel })),
    ],
    log,
  });
  stops.push(() => pipes.close());
}

/** SIGUSR1 logs what is forwarded where, SIGUSR2 ends the profile of the CPU. */
export function debugSignals(
  { log, stops }: Assembly,
  o: { forwarder: Forwarder; endCpuProfile: () => Promise<void> },
): void {
  const onTables = (): void => log.info({ tables: forwardingTables(o.forwarder) }, "forwarding tables");
  const onProfile = (): void => void o.endCpuProfile();
  process.on("SIGUSR1", onTables).on("SIGUSR2", onProfile);
  stops.push(() => {
    process.off("SIGUSR1", onTables).off("SIGUSR2", onProfile);
  });
}
