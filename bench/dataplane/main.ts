/**
 * The table of the data plane: our routers beside OpenZiti's in one run, with the same load and the same tunnelers, and
 * our own ends over ours. One line of JSON per figure, with its target.
 *
 *     make bench                                     everything, and the wire alone (docs/benchmarks.md)
 *     npm run bench:dataplane -- [row …]             those rows only; without one: all
 *     npm run bench:dataplane -- --quick             a tenth of the bytes and circuits
 *     npm run bench:dataplane -- memory --minutes 10 how long memory is watched (default 1)
 *     npm run bench:dataplane -- --without peer      without anything of OpenZiti
 *     npm run bench:dataplane -- --check             exits with 1 when a target is missed
 */

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { errorText } from "@sallyport/async";
import { makeScratch, removeScratch } from "../../e2e/network/scratch.ts";
import { missed } from "./figure.ts";
import { Paths } from "./paths.ts";
import type { Effort, Row } from "./row.ts";
import { circuits, firstByte } from "./rows/circuits.ts";
import { firstDial } from "./rows/first-dial.ts";
import { idleCircuits } from "./rows/idle-circuits.ts";
import { memory } from "./rows/memory.ts";
import { relay } from "./rows/relay.ts";
import { roundTrip } from "./rows/round-trip.ts";
import { stoppedReader } from "./rows/stopped-reader.ts";
import { throughput } from "./rows/throughput.ts";
import { workers } from "./rows/workers.ts";

/** In the order in which they disturb each other least: memory after everything that it should survive. */
const ROWS: Readonly<Record<string, Row>> = {
  relay,
  "first-byte": firstByte,
  "first-dial": firstDial,
  "round-trip": roundTrip,
  circuits,
  throughput,
  "stopped-reader": stoppedReader,
  memory,
  "idle-circuits": idleCircuits,
  workers,
};

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean" },
    check: { type: "boolean" },
    without: { type: "string" },
    minutes: { type: "string" },
  },
});
const memorySeconds = options.minutes === undefined ? undefined : Number(options.minutes) * 60;
const effort: Effort = options.quick
  ? { bytes: 1e8, rounds: 1, circuits: 100, roundTrips: 500, idleCircuits: 2_000, memorySeconds: memorySeconds ?? 10 }
  : {
      bytes: 4e8,
      rounds: 2,
      circuits: 400,
      roundTrips: 2_000,
      idleCircuits: 10_000,
      memorySeconds: memorySeconds ?? 30,
    };

function peerBinary(): string | undefined {
  if (options.without === "peer") return undefined;
  const tools = join(import.meta.dirname, "..", "..", "scripts", "install-tools.sh");
  const build = spawnSync(tools, ["ziti"], { encoding: "utf8" });
  if (build.status === 0) return build.stdout.trim();
  console.error(`*** THE PEER IS NOT MEASURED: ${build.stderr.trim()}`);
  return undefined;
}

function rows(): [string, Row][] {
  const names = positionals.length > 0 ? positionals : Object.keys(ROWS);
  return names.map((name) => {
    const row = ROWS[name];
    if (row === undefined) throw new Error(`no row ${name}; there are ${Object.keys(ROWS).join(", ")}`);
    return [name, row];
  });
}

const asked = rows();
const folder = makeScratch("bench");
const paths = new Paths(folder, peerBinary());
const failed: string[] = [];
try {
  for (const [name, row] of asked) {
    const started = performance.now();
    try {
      await row(paths, effort);
    } catch (error) {
      failed.push(name);
      console.error(`*** ${name} could not be measured: ${errorText(error)}`);
    }
    console.error(`${name}: ${Math.round((performance.now() - started) / 1000)} s`);
  }
} finally {
  await paths.stop();
  removeScratch(folder);
}
for (const { figure, of, ratio, value, target } of missed()) {
  console.error(
    `missed: ${[figure, of].filter(Boolean).join(", ")}: ${ratio ?? value}, target ${JSON.stringify(target)}`,
  );
}
if (failed.length > 0 || (options.check === true && missed().length > 0)) process.exitCode = 1;
