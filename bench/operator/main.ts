/**
 * The operator: a whole network applied at once, on a real API server and our controller with PostgreSQL, with real routers. One line of JSON per figure, with its
 * target (docs/benchmarks.md). Needs what a test cluster needs (docs/cluster.md).
 *
 *     npm run bench:operator                       1,000 identities, 200 services, 200 policies, 20 routers
 *     npm run bench:operator -- --quick            a tenth of it
 *     npm run bench:operator -- --enrolled 1000    how many of the identities the operator enrolls (default a tenth; the others get tokens)
 *     npm run bench:operator -- --rest 300         how many seconds are watched at rest (default 60)
 *     npm run bench:operator -- --operator <file>  another packed operator than that of this tree
 *     npm run bench:operator -- --check            exits with 1 when a target is missed
 */
import { parseArgs } from "node:util";
import { findTools, NoClusterError } from "../../e2e/cluster/tools.ts";
import { makeScratch, removeScratch } from "../../e2e/network/scratch.ts";
import { missed } from "../dataplane/figure.ts";
import type { Amount } from "./declared.ts";
import { applyAll, reaction, rest, restart } from "./rows.ts";
import { Scene } from "./scene.ts";

const { values: options } = parseArgs({
  options: {
    quick: { type: "boolean" },
    check: { type: "boolean" },
    enrolled: { type: "string" },
    routers: { type: "string" },
    rest: { type: "string" },
    operator: { type: "string" },
  },
});

function amount(): Amount {
  const share = options.quick ? 10 : 1;
  const identities = 1_000 / share;
  return {
    identities,
    enrolled: Math.min(identities, Number(options.enrolled ?? identities / 10)),
    services: 200 / share,
    policies: 200 / share,
    routers: Number(options.routers ?? 20 / share),
  };
}

async function main(): Promise<void> {
  const folder = makeScratch("bench-operator");
  let scene: Scene | undefined;
  try {
    scene = await Scene.open(folder, options.operator);
    const count = await applyAll(scene, amount());
    await rest(scene, Number(options.rest ?? 60));
    await reaction(scene, 20);
    await restart(scene, count);
  } finally {
    await scene?.close();
    removeScratch(folder);
  }
  for (const { figure, of, value, target } of missed()) {
    console.error(`missed: ${[figure, of].filter(Boolean).join(", ")}: ${value}, target ${JSON.stringify(target)}`);
  }
  if (options.check === true && missed().length > 0) process.exitCode = 1;
}

try {
  findTools();
  await main();
} catch (error) {
  if (!(error instanceof NoClusterError)) throw error;
  console.error(`*** THE OPERATOR IS NOT MEASURED: ${error.message}`);
}
