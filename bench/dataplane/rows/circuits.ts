import { emit, median } from "../figure.ts";
import { type Circuits, openCircuits } from "../load.ts";
import { labels, type MeasuredPath, type PathName, type Paths } from "../paths.ts";
import type { Effort } from "../row.ts";
import { meter, type Usage } from "../usage.ts";

interface Run {
  readonly result: Circuits;
  readonly usage: Readonly<Record<string, Usage>>;
}

const TARGETS: Readonly<Partial<Record<PathName, { atLeast: number }>>> = {
  mixed: { atLeast: 4 },
  sdk: { atLeast: 4 },
  tunnel: { atLeast: 4 },
};
const AIMS: Readonly<Partial<Record<PathName, { atLeast: number }>>> = {
  mixed: { atLeast: 8 },
  sdk: { atLeast: 10 },
  tunnel: { atLeast: 10 },
};

/** New circuits per second, 16 at a time: connect, one byte there and back, close. */
export async function circuits(paths: Paths, effort: Effort): Promise<void> {
  await opening(paths, effort, 16, effort.circuits, (path, runs, peer) => {
    const perSecond = median(runs.map(({ result }) => result.perSecond));
    const beside = peer && median(peer.map(({ result }) => result.perSecond));
    const target = TARGETS[path.name];
    const aim = AIMS[path.name];
    emit({
      figure: "new circuits, 16 at a time",
      of: labels[path.name],
      value: perSecond,
      unit: "per second",
      ...(beside !== undefined &&
        path.name !== "peer" && { beside, ratio: perSecond / beside, ...(target && { target }), ...(aim && { aim }) }),
      details: detailsOf(runs),
    });
  });
}

/** From connect to the first byte that came back, one circuit at a time. */
export async function firstByte(paths: Paths, effort: Effort): Promise<void> {
  await opening(paths, effort, 1, Math.ceil(effort.circuits / 4), (path, runs, peer) => {
    const p50 = median(runs.map(({ result }) => result.p50Ms));
    const beside = peer && median(peer.map(({ result }) => result.p50Ms));
    emit({
      figure: "time to first byte, p50",
      of: labels[path.name],
      value: p50,
      unit: "ms",
      ...(beside !== undefined &&
        path.name !== "peer" && { beside, ratio: p50 / beside, target: { atMost: 0.5 }, aim: { atMost: 4 / 19 } }),
      details: detailsOf(runs),
    });
  });
}

async function opening(
  paths: Paths,
  effort: Effort,
  concurrency: number,
  count: number,
  tell: (path: MeasuredPath, runs: readonly Run[], peer: readonly Run[] | undefined) => void,
): Promise<void> {
  const measured = await paths.get("sdk", "tunnel", "mixed", "peer");
  const runs = new Map<PathName, Run[]>(measured.map(({ name }) => [name, []]));
  // The first round is for the compilers.
  for (let round = -1; round < effort.rounds; round++) {
    for (const path of measured) {
      const share = round < 0 ? Math.ceil(count / 4) : count;
      const used = meter(path.processes);
      const result = await openCircuits(path.port, share, concurrency);
      if (round >= 0) runs.get(path.name)?.push({ result, usage: used(share / 1000) });
    }
  }
  for (const path of measured) tell(path, runs.get(path.name) ?? [], runs.get("peer"));
}

function detailsOf(runs: readonly Run[]): Record<string, unknown> {
  const names = Object.keys(runs[0]?.usage ?? {});
  const cpu = (name: string): number => median(runs.map(({ usage }) => usage[name]?.cpuSeconds ?? Number.NaN));
  return {
    p50Ms: median(runs.map(({ result }) => result.p50Ms)),
    p99Ms: median(runs.map(({ result }) => result.p99Ms)),
    failed: runs.reduce((sum, { result }) => sum + result.failed, 0),
    cpuMsPerCircuit: Object.fromEntries(names.map((name) => [name, Math.round(cpu(name) * 100) / 100])),
  };
}
