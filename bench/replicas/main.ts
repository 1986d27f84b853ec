/**
 * Several controllers on one PostgreSQL. One line of JSON per figure, with its target (docs/benchmarks.md).
 *
 *     npm run bench:replicas                     everything, in less than ten minutes
 *     npm run bench:replicas -- scaling rest     these rows alone
 *     npm run bench:replicas -- --quick          a tenth of routers, terminators and requests
 *     npm run bench:replicas -- --check          exits with 1 when a target is missed
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { makeScratch, removeScratch } from "../../e2e/network/scratch.ts";
import { emit, missed } from "../dataplane/figure.ts";
import type { Effort, Row } from "./row.ts";
import { changes } from "./rows/changes.ts";
import { databaseFailover } from "./rows/database-failover.ts";
import { killedController } from "./rows/killed-controller.ts";
import { manyRouters } from "./rows/many-routers.ts";
import { rest } from "./rows/rest.ts";
import { scaling } from "./rows/scaling.ts";
import { terminators } from "./rows/terminators.ts";

const ROWS: Readonly<Record<string, Row>> = {
  "killed-controller": killedController,
  "database-failover": databaseFailover,
  changes,
  scaling,
  rest,
  "many-routers": manyRouters,
  terminators,
};

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean" }, check: { type: "boolean" }, rest: { type: "string" } },
});

function chosen(): [string, Row][] {
  const unknown = positionals.filter((name) => !(name in ROWS));
  if (unknown.length > 0) {
    throw new Error(`unknown rows: ${unknown.join(", ")}; there are ${Object.keys(ROWS).join(", ")}`);
  }
  return Object.entries(ROWS).filter(([name]) => positionals.length === 0 || positionals.includes(name));
}

const effort: Effort = options.quick
  ? { divisor: 10, restSeconds: Number(options.rest ?? 15) }
  : { divisor: 1, restSeconds: Number(options.rest ?? 40) };

const scratch = makeScratch("bench-replicas");
try {
  for (const [name, row] of chosen()) {
    const began = performance.now();
    try {
      await row(join(scratch, name), effort);
    } catch (error) {
      // The other rows are measured all the same.
      emit({ figure: `${name} could not be measured`, value: 1, unit: "failure", target: { atMost: 0 } });
      console.error(error);
    }
    console.error(`${name}: ${Math.round((performance.now() - began) / 1_000)} s`);
  }
} finally {
  removeScratch(scratch);
}
for (const { figure, of, value, ratio, unit, target } of missed()) {
  const named = [figure, of].filter(Boolean).join(", ");
  console.error(`missed: ${named}: ${ratio ?? `${value} ${unit}`}, target ${JSON.stringify(target)}`);
}
if (options.check === true && missed().length > 0) process.exitCode = 1;
// What a failed row has left running ends with this process.
process.exit();
