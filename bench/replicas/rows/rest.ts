import { pause } from "@sallyport/async";
import { emit } from "../../dataplane/figure.ts";
import { ControllerSet } from "../controller-set.ts";
import { startRouters, stopAll } from "../router-programs.ts";
import type { Row } from "../row.ts";

const CONTROLLERS = 3;
const ROUTERS = 10;
/** What comes with the start is over by then: the links of the routers are measured, the controllers are members. */
const SETTLE_MS = 10_000;

/** What controllers use that have nothing to do, with routers that have nothing to do. */
export const rest: Row = async (folder, { restSeconds }) => {
  const set = await ControllerSet.start(folder, CONTROLLERS);
  try {
    const routers = await startRouters(set, folder, ROUTERS);
    try {
      await pause(SETTLE_MS);
      const began = performance.now();
      const [controllers, database] = [set.cpuSeconds(), await set.databaseCpuSeconds()];
      await pause(restSeconds * 1_000);
      const percent = (seconds: number): number => (seconds / ((performance.now() - began) / 1_000)) * 100;
      const each = set.cpuSeconds().map((now, index) => percent(now - (controllers[index] ?? 0)));
      emit({
        figure: "controllers at rest, with 10 routers",
        of: "the busiest of three",
        value: Math.max(...each),
        unit: "% of a core",
        target: { atMost: 1 },
        details: {
          each: each.map((value) => Math.round(value * 100) / 100),
          database: Math.round(percent((await set.databaseCpuSeconds()) - database) * 100) / 100,
          seconds: restSeconds,
        },
      });
    } finally {
      await stopAll(routers);
    }
  } finally {
    await set.stop();
  }
};
