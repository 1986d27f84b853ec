import { pause } from "@sallyport/async";
import { emit } from "../../dataplane/figure.ts";
import { ControllerSet } from "../controller-set.ts";
import { enrollRouters } from "../enrolled-routers.ts";
import { routersOnline } from "../requests.ts";
import type { Row } from "../row.ts";
import { type Heartbeats, SimulatedProcesses } from "../simulation.ts";

const CONTROLLERS = 3;
const ROUTERS = 1_000;
const PROCESSES = 2;
const LOOK_MS = 500;
/** Every channel has sent two heartbeats by then. */
const HEARTBEATS_MS = 22_000;

/** Many routers that all connect at once: after they were restarted, and after the controllers were. */
export const manyRouters: Row = async (folder, { divisor }) => {
  const set = await ControllerSet.start(folder, CONTROLLERS);
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, ...set.residentMiB());
  }, LOOK_MS);
  try {
    const routers = await enrollRouters(set, ROUTERS / divisor);
    const ctrlPorts = set.members.map(({ ctrlPort }) => ctrlPort);
    const simulated = new SimulatedProcesses(folder, { routers, ctrlPorts, hosts: true }, PROCESSES);
    try {
      await simulated.start();
      await simulated.kill();
      const controllers = set.cpuSeconds();
      const back = await simulated.start();
      const cpuSeconds = set.cpuSeconds().map((now, index) => round(now - (controllers[index] ?? 0)));
      tellBack("the routers were killed and started", routers.length, back, { cpuSeconds });
      await pause(HEARTBEATS_MS);
      tellHeartbeats("the routers were killed and started", await simulated.heartbeats(), 0);
      for (const member of set.members) {
        const online = await routersOnline(member);
        if (online !== routers.length) throw new Error(`${member.id} has ${online} routers of ${routers.length}`);
      }

      const { lost } = await simulated.heartbeats();
      const again = simulated.completeAgain();
      again.catch(() => undefined);
      const began = performance.now();
      await set.restartAll();
      await again;
      tellBack("the controllers were killed and started", routers.length, performance.now() - began);
      await pause(HEARTBEATS_MS);
      tellHeartbeats(
        "the controllers were killed and started",
        await simulated.heartbeats(),
        lost + routers.length * CONTROLLERS,
      );
    } finally {
      await simulated.kill();
    }
    emit({
      figure: `resident memory of a controller with ${routers.length} routers, the most`,
      value: most,
      unit: "MiB",
      target: { atMost: 1_024 },
    });
  } finally {
    clearInterval(watch);
    await set.stop();
  }
};

function tellBack(of: string, count: number, ms: number, details: Readonly<Record<string, unknown>> = {}): void {
  const figure = `until ${count} routers have three controllers and the data model`;
  emit({ figure, of, value: ms / 1_000, unit: "s", target: { atMost: 60 }, details });
}

/** @param ended channels that had to end */
function tellHeartbeats(of: string, { late, lost, channels, answered, maxMs }: Heartbeats, ended: number): void {
  emit({
    figure: "control channels with late or no heartbeats, or lost",
    of,
    value: late + Math.max(0, lost - ended) + (channels - answered),
    unit: "channels",
    target: { atMost: 0 },
    details: { channels, slowestAnswerMs: round(maxMs) },
  });
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
