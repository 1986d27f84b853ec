/**
 * A cluster to play with: `node e2e/cluster/main.ts up [--nodes N] [IMAGE.tar …]` starts one and leaves it running, and
 * prints the line that makes kubectl and helm talk to it; when there is one already, only the line. `down` removes it.
 */

import { dirname, resolve } from "node:path";
import { parseArgs } from "node:util";
import { errorText } from "@sallyport/async";
import { SLOTS } from "./box/addresses.ts";
import { keeperOptions } from "./cluster.ts";
import { KeeperProcess } from "./keeper/keeper-process.ts";
import { askKeeper } from "./keeper/lock.ts";
import { findTools, NoClusterError, toolIfAny } from "./tools.ts";
import { programOnPath } from "./ways/program-on-path.ts";

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { nodes: { type: "string", default: "1" } },
});
const [command, ...images] = positionals;
try {
  if (command === "up") await up();
  else if (command === "down") await down();
  else throw new Error("usage: node e2e/cluster/main.ts up [--nodes N] [IMAGE.tar …] | down");
} catch (error) {
  if (error instanceof NoClusterError) console.error(`no cluster can be had on this machine: ${error.message}`);
  else console.error(errorText(error));
  process.exitCode = 1;
}

async function up(): Promise<void> {
  const tools = findTools();
  for (const { state } of await own()) {
    if (state.kubeconfig !== undefined) return printLine(state.kubeconfig, tools.kubernetes);
  }
  const options = {
    ...keeperOptions({ nodes: Number(values.nodes), images: images.map((file) => resolve(file)) }),
    tools,
    stays: true,
  };
  const keeper = new KeeperProcess(options, (stage, ms) => console.error(`${(ms / 1000).toFixed(1)} s: ${stage}`));
  const { kubeconfig } = await keeper.ready;
  printLine(kubeconfig, tools.kubernetes);
  // It stays; this process does not.
  process.exit(0);
}

async function down(): Promise<void> {
  const running = await own();
  for (const { slot } of running) await askKeeper(slot, "close");
  console.error(running.length === 0 ? "there is no cluster that `make cluster` started" : "the cluster is gone");
}

/** The clusters that were started here, not those of tests. */
async function own() {
  const found = [];
  for (let slot = 0; slot < SLOTS; slot++) {
    const state = await askKeeper(slot, "about");
    if (state?.stays === true) found.push({ slot, state });
  }
  return found;
}

/** Helm comes along unless there is one. */
function printLine(kubeconfig: string, kubectl: string): void {
  const helm = programOnPath("helm") === undefined ? toolIfAny("helm") : undefined;
  const folders = [kubectl, ...(helm === undefined ? [] : [dirname(helm)])];
  console.log(`export KUBECONFIG=${kubeconfig} PATH=${folders.join(":")}:$PATH`);
}
