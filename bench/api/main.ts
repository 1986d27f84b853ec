/**
 * The controller's API: ours beside OpenZiti's in one run, then ours alone with 100,000 identities, and its logins by OIDC beside those without. Prints one
 * line of JSON per figure (docs/benchmarks.md).
 *
 *     npm run bench:api                    everything
 *     npm run bench:api -- --quick         a tenth of the requests, and of the large network
 *     npm run bench:api -- --only table    the comparison alone, or `--only large`, `--only oidc`
 *     npm run bench:api -- --without peer  the comparison without OpenZiti
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { makeScratch, removeScratch } from "../../e2e/network/scratch.ts";
import type { Emit } from "./compare.ts";
import { measureLarge } from "./large/figures.ts";
import { measureOidc } from "./oidc.ts";
import { type Side, startOwn, startPeer } from "./sides.ts";
import { measureTable } from "./table.ts";

const { values: options } = parseArgs({
  options: { quick: { type: "boolean" }, only: { type: "string" }, without: { type: "string" } },
});
const emit: Emit = (figure) => console.log(JSON.stringify(figure));

async function main(): Promise<void> {
  const folder = makeScratch("bench-api");
  const cleanup: (() => Promise<unknown>)[] = [async () => removeScratch(folder)];
  try {
    const isWanted = (part: string): boolean => (options.only ?? part) === part;
    if (isWanted("table")) {
      const sides: Side[] = [];
      const ours = await startOwn(join(folder, "ours"));
      cleanup.push(() => ours.stop());
      sides.push(ours);
      const binary = options.without === "peer" ? undefined : peerBinary();
      if (binary !== undefined) {
        const peer = await startPeer(binary, join(folder, "peer"));
        cleanup.push(() => peer.stop());
        sides.push(peer);
      }
      const effort = options.quick
        ? { identities: 400, rounds: 2, requests: 400 }
        : { identities: 2_000, rounds: 5, requests: 4_000 };
      await measureTable(sides, effort, emit);
      for (const side of sides) await side.stop();
      cleanup.splice(1);
    }
    if (isWanted("large")) {
      const ours = await startOwn(join(folder, "large"));
      cleanup.push(() => ours.stop());
      await measureLarge(ours, options.quick ? 10 : 1, emit);
      await ours.stop();
      cleanup.splice(1);
    }
    if (isWanted("oidc")) await measureOidc(join(folder, "oidc"), options.quick ? 10 : 1, emit);
  } finally {
    for (const step of cleanup.toReversed()) await step();
  }
}

function peerBinary(): string | undefined {
  const build = spawnSync(join(import.meta.dirname, "..", "..", "scripts", "install-tools.sh"), ["ziti"], {
    encoding: "utf8",
  });
  if (build.status === 0) return build.stdout.trim();
  console.error(`*** THE PEER IS NOT MEASURED: ${build.stderr.trim()}`);
  return undefined;
}

await main();
