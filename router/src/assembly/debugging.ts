import { resolve } from "node:path";
import { errorText } from "@sallyport/async";
import type { Channel } from "@sallyport/wire";
import { RouterStartError } from "../config/start-rules/rules.ts";
import type { Controllers } from "../control/controllers/controllers.ts";
import type { EdgeListener } from "../edge/edge-listener.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { forwardingTables } from "../inspectors.ts";
import type { Link } from "../link/link.ts";
import type { LinkManager } from "../link/link-manager.ts";
import { type Pipe, PipeTraces } from "../observe/pipe-traces.ts";
import { Profiles } from "../observe/profiles.ts";
import { TraceFile } from "../observe/trace-file.ts";
import type { Assembly } from "./context.ts";

/** The profiles of `profile`; the first part to be started. @returns ends the profile of the CPU */
export async function profiles({ config, baseDir, log, stops }: Assembly): Promise<() => Promise<void>> {
  if (config.profile === undefined) return async () => {};
  const started = await Profiles.start({ ...config.profile, baseDir, log });
  stops.push(() => started.close());
  return () => started.endCpu();
}

/** The file of `trace`, if there is one; opened before there are channels. @throws RouterStartError when it cannot be opened */
export async function traceFile({ config, routerId, baseDir, log, stops }: Assembly): Promise<TraceFile | undefined> {
  if (config.trace === undefined) return undefined;
  try {
    const file = await TraceFile.open({ path: resolve(baseDir, config.trace.path), routerId, log });
    stops.push(() => file.close());
    return file;
  } catch (cause) {
    const problem = { path: ["trace", "path"], text: `the file cannot be written: ${errorText(cause)}` };
    throw new RouterStartError([problem], undefined, { cause });
  }
}

/** Has every channel traced that there will be: in the file, and for operators who switch it on. @returns takes those of SDKs */
export function traces(
  { routerId, log, stops }: Assembly,
  o: {
    file: TraceFile | undefined;
    controllers: Controllers;
    links: LinkManager;
    edge: () => EdgeListener | undefined;
  },
): (channel: Channel) => void {
  const { file, controllers, links } = o;
  if (file !== undefined) {
    controllers.onConnected(({ id, channel }) => file.follow(`ctrl/${id}`, channel));
    links.onLink((link) => {
      for (const pipe of pipesOf(link)) file.follow(pipe.name, pipe.channel);
    });
  }
  const pipes = new PipeTraces({
    routerId,
    controllers,
    pipes: () => [
      ...links.links().flatMap(pipesOf),
      ...(o.edge()?.sdks() ?? []).map(({ channel }) => ({ name: edgePipe(channel), channel })),
    ],
    log,
  });
  stops.push(() => pipes.close());
  return (channel) => file?.follow(edgePipe(channel), channel);
}

const edgePipe = ({ connectionId }: Channel): string => `edge/${connectionId}`;

/** A split link is two channels. */
function pipesOf({ id, channel, ackChannel }: Link): Pipe[] {
  const pipe = { name: `link/${id}`, channel };
  return ackChannel === undefined ? [pipe] : [pipe, { name: `link/${id}/ack`, channel: ackChannel }];
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
