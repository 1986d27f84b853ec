/**
 * The data plane side by side: the same tunnelers (the peer's) over our routers and over the peer's, and our SDK's ends
 * over ours, next to a bare TLS pipe in the same minute. Prints one line of JSON per figure.
 *
 *     make bench                              everything, and the wire alone (docs/benchmarks.md)
 *     npm run bench:dataplane -- --quick      a tenth of the bytes and circuits
 *     npm run bench:dataplane -- --only ours  without the peer's network (or `--only peer`)
 */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { startNetwork } from "../../e2e/network/network.ts";
import { PeerCli } from "../../e2e/network/peer-cli.ts";
import { startPeerNetwork } from "../../e2e/network/peer-network.ts";
import { Program } from "../../e2e/network/program.ts";
import { makeScratch, removeScratch } from "../../e2e/network/scratch.ts";
import { startTunnelledService } from "../../e2e/network/tunnel.ts";
import {
  type Effort,
  type Emit,
  type MeasuredPath,
  measureCircuits,
  measureMemory,
  measureThroughput,
  warmUp,
} from "./figures.ts";
import { startSdkPath } from "./own.ts";
import { measurePipe } from "./yardstick.ts";

const { values: options } = parseArgs({ options: { quick: { type: "boolean" }, only: { type: "string" } } });
const effort: Effort = options.quick
  ? { bytes: 100e6, circuits: 50, roundTrips: 200 }
  : { bytes: 1e9, circuits: 500, roundTrips: 2_000 };

const emit: Emit = (figure) => console.log(JSON.stringify(figure));

async function main(): Promise<void> {
  const folder = makeScratch("bench");
  const cleanup: (() => Promise<unknown>)[] = [async () => removeScratch(folder)];
  try {
    const target = new Program({
      name: "target",
      command: process.execPath,
      args: [join(import.meta.dirname, "target.ts")],
    });
    cleanup.push(() => target.stop());
    const targetPort = Number((await target.line(/^port /)).slice(5));
    const binary = peerBinary();

    if (options.only !== "peer") {
      const network = await startNetwork(join(folder, "ours"));
      cleanup.push(() => network.stop());
      const routers = { controller: network.controller, r1: network.routers[0], r2: network.routers[1] };
      const sdk = await startSdkPath(network, targetPort);
      await measure(
        {
          label: "our routers, our SDK",
          port: sdk.port,
          processes: { ...routers, client: sdk.client, host: sdk.host },
        },
        folder,
      );
      await sdk.stop();
      if (binary !== undefined) {
        const cli = new PeerCli(binary, network.folder);
        await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
        const service = await startTunnelledService({
          cli,
          binary,
          folder: network.folder,
          name: "tunnelled",
          targetPort,
        });
        await measure(
          {
            label: "our routers, peer tunnelers",
            port: service.port,
            processes: { ...routers, client: service.client, host: service.host },
          },
          folder,
        );
        await service.stop();
      }
      await network.stop();
    }
    if (options.only !== "ours" && binary !== undefined) {
      const network = await startPeerNetwork(binary, join(folder, "peer"));
      cleanup.push(() => network.stop());
      const service = await startTunnelledService({
        cli: network.cli,
        binary,
        folder: network.folder,
        name: "tunnelled",
        targetPort,
      });
      const processes = {
        controller: network.controller,
        r1: network.routers[0],
        r2: network.routers[1],
        client: service.client,
        host: service.host,
      };
      await measure({ label: "peer routers, peer tunnelers", port: service.port, processes }, folder);
      await service.stop();
    }
  } finally {
    for (const step of cleanup.toReversed()) await step();
  }
}

async function measure(path: MeasuredPath, folder: string): Promise<void> {
  await warmUp(path);
  const pipe = await measurePipe(folder, effort.bytes);
  emit({ figure: "TLS pipe, one hop", beside: path.label, ...pipe });
  await measureThroughput(path, effort, emit);
  await measureCircuits(path, effort, emit);
  measureMemory(path, emit);
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
