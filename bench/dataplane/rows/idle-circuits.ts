import { join } from "node:path";
import { pause } from "@sallyport/async";
import { declareService } from "../../../e2e/network/network.ts";
import { Program } from "../../../e2e/network/program.ts";
import { emit } from "../figure.ts";
import type { Paths } from "../paths.ts";
import type { Effort } from "../row.ts";
import { residentMiB } from "../usage.ts";

const SETTLE_MS = 5_000;

/** Opens very many circuits with our SDK, leaves them alone, and lets every one carry a byte at the end. */
export async function idleCircuits(paths: Paths, effort: Effort): Promise<void> {
  const network = await paths.ours();
  const service = "idle";
  const { hostFile, clientFile } = await declareService(network, { name: service });
  const start = (side: string, ...args: string[]): Program =>
    new Program({
      name: `idle-${side}`,
      command: process.execPath,
      args: [join(import.meta.dirname, "..", `idle-${side}.ts`), ...args],
      logFile: join(paths.folder, `idle-${side}.log`),
    });
  const host = start("host", hostFile, service);
  const client = start("client", clientFile, service, String(effort.idleCircuits));
  try {
    await host.line(/^hosting/, 120_000);
    await client.line(/^ready/, 120_000);
    await pause(SETTLE_MS);
    const before = network.routers.map(({ pid }) => residentMiB(pid));
    client.signal("SIGUSR2");
    const opened = JSON.parse((await client.line(/^opened /, 600_000)).slice(7)) as { open: number; seconds: number };
    await pause(SETTLE_MS);
    const after = network.routers.map(({ pid }) => residentMiB(pid));
    client.signal("SIGUSR2");
    const alive = Number((await client.line(/^alive /, 300_000)).slice(6));
    emit({
      figure: "idle circuits that are open and carry a byte",
      value: alive,
      unit: "circuits",
      target: { atLeast: effort.idleCircuits },
      details: { asked: effort.idleCircuits, open: opened.open, secondsToOpen: opened.seconds },
    });
    for (const [index, router] of ["r1", "r2"].entries()) {
      const [then = Number.NaN, now = Number.NaN] = [before[index], after[index]];
      emit({
        figure: "memory of an idle circuit",
        of: router,
        value: ((now - then) * 1024) / opened.open,
        unit: "KiB",
        target: { atMost: 8 },
        details: { residentMiBBefore: then, residentMiBAfter: now },
      });
    }
  } finally {
    await Promise.all([client.stop(), host.stop()]);
  }
}
