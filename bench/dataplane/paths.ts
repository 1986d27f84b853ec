import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { pause } from "@sallyport/async";
import { freePort, freePorts } from "@sallyport/wire/testing/free-ports";
import type { LoginKind } from "../../e2e/network/login/logins.ts";
import { declareService, type Network, type NetworkOptions, startNetwork } from "../../e2e/network/network.ts";
import { PeerCli } from "../../e2e/network/openziti/peer-cli.ts";
import { type PeerNetwork, startPeerNetwork } from "../../e2e/network/openziti/peer-network.ts";
import { declareService as declareTunnelled, startTunnelledService } from "../../e2e/network/openziti/tunnel.ts";
import { accepts, Program } from "../../e2e/network/program.ts";
import { pack } from "../../scripts/pack.ts";
import { openCircuits } from "./load.ts";
import { withMetrics } from "./router-counters.ts";
import type { Processes } from "./usage.ts";

/** What is measured: whose routers, and whose ends. */
export type PathName = "sdk" | "tunnel" | "mixed" | "peer";

export const labels: Readonly<Record<PathName, string>> = {
  sdk: "our routers, our SDK",
  tunnel: "our routers, our tunnelers",
  mixed: "our routers, peer tunnelers",
  peer: "peer routers, peer tunnelers",
};

/** A path that is measured: a local port, and the processes that carry what is sent into it. */
export interface MeasuredPath {
  readonly name: PathName;
  readonly port: number;
  /** `controller`, `r1`, `r2`, `client`, `host`. */
  readonly processes: Processes;
}

/**
 * The networks under test and the paths over them, each started when it is first asked for and kept until the end: so the
 * rounds of a figure can alternate between them within the same minute. Our programs run packed, as users run them.
 */
export class Paths {
  readonly folder: string;
  /** Where connections come out. */
  readonly target: Program;
  /** OpenZiti's program; without it there is nothing to compare with. */
  readonly binary: string | undefined;
  readonly #paths = new Map<PathName, Promise<MeasuredPath>>();
  readonly #stops: (() => Promise<unknown>)[] = [];
  #ours: Promise<Network> | undefined;
  /** Where our routers tell their metrics: `r1`, `r2`. */
  readonly metricsPorts = new Map<string, number>();
  #peers: Promise<PeerNetwork> | undefined;

  constructor(folder: string, binary: string | undefined) {
    this.folder = folder;
    this.binary = binary;
    this.target = this.program("target", process.execPath, join(import.meta.dirname, "target.ts"));
  }

  async targetPort(): Promise<number> {
    return Number((await this.target.line(/^port /)).slice(5));
  }

  ours(): Promise<Network> {
    this.#ours ??= (async () => {
      for (const [index, port] of (await freePorts(2)).entries()) this.metricsPorts.set(`r${index + 1}`, port);
      return await this.#network("ours", {
        routerSettings: (name, text) => withMetrics(text, this.metricsPorts.get(name) ?? 0),
      });
    })();
    return this.#ours;
  }

  /** The same for a row about the ways to log in. */
  async oursBy(login: LoginKind): Promise<Network> {
    return await this.#network(`ours-by-${login}`, { login });
  }

  async #network(name: string, options: NetworkOptions): Promise<Network> {
    const files = { controller: await pack("controller"), router: await pack("router") };
    const programFile = (program: keyof typeof files) => files[program];
    const network = await startNetwork(join(this.folder, name), { ...options, programFile });
    this.#stops.push(() => network.stop());
    return network;
  }

  /** Controller and routers of our network. */
  async ourProcesses(): Promise<Processes> {
    const { controller, routers } = await this.ours();
    return { controller, r1: routers[0], r2: routers[1] };
  }

  /** Those of the named paths that can be measured here. */
  async get(...names: PathName[]): Promise<MeasuredPath[]> {
    const possible = names.filter((name) => name === "sdk" || this.binary !== undefined);
    const paths: MeasuredPath[] = [];
    // One after the other: starting up is not what is measured.
    for (const name of possible) {
      let path = this.#paths.get(name);
      if (path === undefined) {
        path = this.#start(name);
        this.#paths.set(name, path);
      }
      paths.push(await path);
    }
    return paths;
  }

  /** Has something stopped at the end that was started for a row alone. */
  onStop(stop: () => Promise<unknown>): void {
    this.#stops.push(stop);
  }

  async stop(): Promise<void> {
    for (const stop of this.#stops.splice(0).toReversed()) await stop();
  }

  async #start(name: PathName): Promise<MeasuredPath> {
    const path = await {
      sdk: () => this.#sdk(),
      tunnel: () => this.#ourTunnelers(),
      mixed: () => this.#peerTunnelers("ours"),
      peer: () => this.#peerTunnelers("peer"),
    }[name]();
    const measured = { name, ...path };
    await warmUp(measured);
    return measured;
  }

  async #sdk(): Promise<Omit<MeasuredPath, "name">> {
    const { port, processes } = await this.sdkOver(await this.ours(), "sdk-path");
    return { port, processes };
  }

  /** A path of our SDK over a network that is not one of those here; `service` is a name of its own. */
  async sdkOver(network: Network, service: string): Promise<MeasuredPath> {
    const { hostFile, clientFile } = await declareService(network, { name: service });
    const start = (side: string, ...args: string[]): Program =>
      this.program(`${service}-${side}`, process.execPath, join(import.meta.dirname, `sdk-${side}.ts`), ...args);
    const host = start("host", hostFile, service, String(await this.targetPort()));
    await host.line(/^hosting/, 120_000);
    const client = start("client", clientFile, service);
    const port = Number((await client.line(/^port /, 120_000)).slice(5));
    const { controller, routers } = network;
    const path: MeasuredPath = {
      name: "sdk",
      port,
      processes: { controller, r1: routers[0], r2: routers[1], client, host },
    };
    await warmUp(path);
    return path;
  }

  async #ourTunnelers(): Promise<Omit<MeasuredPath, "name">> {
    const network = await this.ours();
    const name = "own-tunnel";
    const { hostFile, clientFile } = await declareTunnelled({
      cli: await this.#cli(network),
      binary: this.binary ?? "",
      folder: network.folder,
      name,
      targetPort: await this.targetPort(),
    });
    const port = await freePort();
    const file = await pack("tunnel");
    const host = this.program("tunnel-host", process.execPath, file, "host", "-i", hostFile);
    const client = this.program("tunnel-proxy", process.execPath, file, "proxy", "-i", clientFile, `${name}:${port}`);
    await client.ready("its proxy port", () => accepts(port));
    return { port, processes: { ...(await this.ourProcesses()), client, host } };
  }

  async #peerTunnelers(whose: "ours" | "peer"): Promise<Omit<MeasuredPath, "name">> {
    const binary = this.binary ?? "";
    const network = whose === "ours" ? await this.ours() : await this.#peerNetwork(binary);
    const cli = "cli" in network ? network.cli : await this.#cli(network);
    const { folder, controller, routers } = network;
    const targetPort = await this.targetPort();
    const service = await startTunnelledService({ cli, binary, folder, name: "tunnelled", targetPort });
    this.#stops.push(() => service.stop());
    const { port, client, host } = service;
    return { port, processes: { controller, r1: routers[0], r2: routers[1], client, host } };
  }

  #peerNetwork(binary: string): Promise<PeerNetwork> {
    this.#peers ??= (async () => {
      const folder = join(this.folder, "peer");
      mkdirSync(folder, { recursive: true });
      const network = await startPeerNetwork(binary, folder);
      this.#stops.push(() => network.stop());
      return network;
    })();
    return this.#peers;
  }

  async #cli(network: Network): Promise<PeerCli> {
    const cli = new PeerCli(this.binary ?? "", network.folder);
    await cli.edge("login", `localhost:${network.port}`, "-u", "admin", "-p", network.adminPassword, "-y");
    return cli;
  }

  /** A program that is stopped at the end. */
  program(name: string, command: string, ...args: string[]): Program {
    const program = new Program({ name, command, args, logFile: join(this.folder, `${name}.log`) });
    this.#stops.push(() => program.stop());
    return program;
  }
}

/** Waits until the path carries a first connection: tunnelers and terminators come up in their own time. */
async function warmUp(path: MeasuredPath, timeoutMs = 60_000): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  while (Date.now() < deadline) {
    if ((await openCircuits(path.port, 1, 1)).failed === 0) return;
    await pause(200);
  }
  throw new Error(`${labels[path.name]}: no connection was carried within ${timeoutMs} ms`);
}
