import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Program } from "../../e2e/network/program.ts";
import type { EnrolledRouter } from "./enrolled-routers.ts";

const MAIN = join(import.meta.dirname, "simulated-routers.ts");
const PATIENCE_MS = 120_000;

export interface Simulation {
  readonly routers: readonly EnrolledRouter[];
  /** Number of the first router: each has a number and an address of its own. */
  readonly first: number;
  readonly ctrlPorts: readonly number[];
  /** Whether the routers have the terminators that controllers ask for. */
  readonly hosts: boolean;
}

/** Of all control channels of a process. */
export interface Heartbeats {
  readonly channels: number;
  /** How many have had an answer to a heartbeat. */
  readonly answered: number;
  /** How many controllers a router would not ask because they answer too slowly. */
  readonly late: number;
  /** The slowest of the last answers. */
  readonly maxMs: number;
  /** How many channels have ended since the start. */
  readonly lost: number;
}

/** Processes that play routers. */
export class SimulatedProcesses {
  readonly #folder: string;
  readonly #simulations: readonly Simulation[];
  #programs: Program[] = [];

  /** @param processes among which the routers are divided */
  constructor(folder: string, simulation: Omit<Simulation, "first">, processes: number) {
    this.#folder = folder;
    const { routers } = simulation;
    const share = Math.ceil(routers.length / processes);
    this.#simulations = Array.from({ length: processes }, (_, index) => ({
      ...simulation,
      first: index * share,
      routers: routers.slice(index * share, (index + 1) * share),
    }));
  }

  /** Resolves when all routers have all controllers and the data model, with how long that took. */
  async start(): Promise<number> {
    const began = performance.now();
    this.#programs = this.#simulations.map((simulation, index) => {
      const name = `simulated-${index}`;
      const file = join(this.#folder, `${name}.json`);
      writeFileSync(file, JSON.stringify(simulation), { mode: 0o600 });
      return new Program({ name, command: process.execPath, args: [MAIN, file] });
    });
    await Promise.all(this.#programs.map((program) => program.line(/"complete"/, PATIENCE_MS)));
    return performance.now() - began;
  }

  /** Resolves when all routers have all controllers again, which they do not have now. */
  async completeAgain(): Promise<void> {
    await Promise.all(this.#programs.map((program) => program.nextLine(/"complete"/, PATIENCE_MS)));
  }

  async heartbeats(): Promise<Heartbeats> {
    const all = await Promise.all(
      this.#programs.map(async (program) => {
        const line = program.nextLine(/"heartbeats"/, PATIENCE_MS);
        program.signal("SIGUSR2");
        return (JSON.parse(await line) as { heartbeats: Heartbeats }).heartbeats;
      }),
    );
    const sum = (name: keyof Heartbeats): number => all.reduce((total, each) => total + each[name], 0);
    return {
      ...{ channels: sum("channels"), answered: sum("answered"), late: sum("late"), lost: sum("lost") },
      maxMs: Math.max(...all.map(({ maxMs }) => maxMs)),
    };
  }

  /** Without a word to the controllers. */
  async kill(): Promise<void> {
    await Promise.all(this.#programs.map((program) => program.end("SIGKILL")));
  }
}
