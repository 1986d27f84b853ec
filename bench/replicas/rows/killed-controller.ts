import { pause } from "@sallyport/async";
import { emit } from "../../dataplane/figure.ts";
import { callApi, missingAt } from "../api-calls.ts";
import { ControllerSet } from "../controller-set.ts";
import { startRouters, stopAll } from "../router-programs.ts";
import type { Row } from "../row.ts";
import { longestGap, Traffic } from "../traffic.ts";

const CONTROLLERS = 3;
const CALLS_PER_SECOND = 60;
const CIRCUITS_PER_SECOND = 50;
const LIMIT_MS = 180_000;
/** Before a controller is killed, until it is started again, and until the next one is killed. */
const CALM_MS = 4_000;
const AWAY_MS = 6_000;

/** Each of three controllers in turn is killed under load, and comes back. */
export const killedController: Row = async (folder) => {
  const set = await ControllerSet.start(folder, CONTROLLERS);
  try {
    const routers = await startRouters(set, folder, 2);
    try {
      const traffic = await Traffic.start(set, folder);
      try {
        await underLoad(set, traffic);
      } finally {
        await traffic.close();
      }
    } finally {
      await stopAll(routers);
    }
  } finally {
    await set.stop();
  }
};

async function underLoad(set: ControllerSet, traffic: Traffic): Promise<void> {
  let isOver = false;
  const load = Promise.all([
    callApi(set, CALLS_PER_SECOND, LIMIT_MS, () => isOver),
    traffic.dial(CIRCUITS_PER_SECOND, LIMIT_MS, () => isOver),
  ]);
  load.catch(() => undefined);
  const began = performance.now();
  for (const index of set.members.keys()) {
    await pause(CALM_MS);
    set.at(index).replica.program.signal("SIGKILL");
    await pause(AWAY_MS);
    await set.restart(index);
  }
  await pause(CALM_MS);
  isOver = true;
  const ended = performance.now();
  const [called, dialled] = await load;

  const of = "each of three controllers killed in turn";
  const none = { target: { atMost: 0 } } as const;
  const missing = await Promise.all(set.members.map((_, index) => missingAt(set, index, called)));
  emit({
    ...{ figure: "acknowledged writes lost", of, value: Math.max(...missing), unit: "writes", ...none },
    details: { acknowledged: called.acknowledged.length },
  });
  emit({
    ...{ figure: "failed API calls, with one retry at another controller", of },
    ...{ value: called.failures.length, unit: "calls", ...none },
    details: { calls: called.calls, retried: called.retried, failures: some(called.failures) },
  });
  emit({
    ...{ figure: "longest time without a new circuit", of },
    ...{ value: longestGap(dialled.at, ended) / 1_000, unit: "s", target: { atMost: 2 } },
    details: { circuits: dialled.at.length, perSecond: Math.round((dialled.at.length / (ended - began)) * 1_000) },
  });
  emit({
    ...{ figure: "failed new circuits, with one retry", of, value: dialled.failures.length, unit: "circuits", ...none },
    details: { retried: dialled.retried, failures: some(dialled.failures) },
  });
  emit({
    ...{ figure: "open circuits that ended", of, value: traffic.ended, unit: "circuits", ...none },
    details: { longestSilenceMs: Math.round(traffic.longestSilenceMs) },
  });
}

const some = (failures: readonly string[]): string[] => [...new Set(failures)].slice(0, 3);
