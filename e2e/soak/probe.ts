import { measure } from "./measure.ts";

/** Loaded into every program of a soak (`node --import …`): on SIGUSR2 it prints what the process holds. */
process.on("SIGUSR2", () => {
  process.stderr.write(`soak-probe ${JSON.stringify(measure())}\n`);
});
