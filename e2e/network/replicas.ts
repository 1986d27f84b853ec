import { join } from "node:path";
import { freePortRange, freePorts } from "@sallyport/wire/testing/free-ports";
import { ADMIN_PASSWORD, type Network, type NetworkOptions, startNetwork } from "./network.ts";
import { accepts, Program } from "./program.ts";

/** What a controller is started from: its sources. */
export const CONTROLLER_MAIN = join(import.meta.dirname, "..", "..", "controller", "src", "main.ts");

/**
 * Sets a network up in `folder` on a database by URL; resolves with the file for its controllers, none of which runs yet.
 * @param port of the address that clients share
 */
export async function initShared(
  folder: string,
  databaseUrl: string,
  port: number,
  programFile = CONTROLLER_MAIN,
): Promise<string> {
  const where = ["--dir", join(folder, "controller"), "--host", "localhost"];
  const ports = ["--api-port", String(port), "--ctrl-port", String(port)];
  const init = new Program({
    name: "init",
    command: process.execPath,
    args: [programFile, "init", ...where, ...ports, "--database-url", databaseUrl],
    env: { SALLYPORT_ADMIN_USERNAME: "admin", SALLYPORT_ADMIN_PASSWORD: ADMIN_PASSWORD },
  });
  const code = await init.exited;
  if (code !== 0) throw new Error(`init ended with exit code ${code}\n${init.tail.join("\n")}`);
  return join(folder, "controller", "controller.yml");
}

/** A further controller process of a network. */
export interface Replica {
  readonly id: string;
  readonly apiPort: number;
  readonly ctrlPort: number;
  readonly program: Program;
}

interface SharedOptions extends Omit<NetworkOptions, "controllerArgs"> {
  /** Port that routers are told of, for the one where the control channel is; the same one when absent. */
  readonly ctrlWay?: (ctrlPort: number) => Promise<number>;
  /** Kind of the network's keys; elliptic curves when absent. */
  readonly keyType?: "rsa";
}

/** A network on a database by URL, whose controller is the replica `c1`. */
export async function startShared(
  folder: string,
  databaseUrl: string,
  { ctrlWay, keyType, ...options }: SharedOptions = {},
): Promise<Network> {
  const [ctrlPort = 0] = await freePorts(1);
  const advertisedPort = (await ctrlWay?.(ctrlPort)) ?? ctrlPort;
  return startNetwork(folder, {
    ...options,
    controllerArgs: ["--database-url", databaseUrl, ...(keyType === undefined ? [] : ["--key-type", keyType])],
    controllerSettings: (text) => `${options.controllerSettings?.(text) ?? text}
replica:
  id: c1
  ctrl:
    bind: 127.0.0.1:${ctrlPort}
    advertise: localhost:${advertisedPort}
`,
  });
}

/** A network whose controller has several workers. */
export interface WorkersNetwork extends Network {
  /** Where each serves its metrics. */
  readonly metricsPorts: readonly number[];
}

/** A network on a database by URL. The workers `controller-1`, `controller-2` … share the controller's port; the next ports are their control channels. */
export async function startWorkers(folder: string, databaseUrl: string, workers: number): Promise<WorkersNetwork> {
  const port = await freePortRange(2 * workers + 1);
  const metrics = port + workers + 1;
  const network = await startNetwork(folder, {
    port,
    controllerArgs: ["--database-url", databaseUrl],
    controllerSettings: (text) =>
      `${text.replace(/^metrics:$/m, `$&\n  bind: 127.0.0.1:${metrics}`)}\nreplica:\n  workers: ${workers}\n`,
  });
  return Object.assign(network, { metricsPorts: Array.from({ length: workers }, (_, at) => metrics + at) });
}

/** Starts another process with the network's configuration file; resolves when it answers. */
export async function startReplica(network: Network, id: string, programFile?: string): Promise<Replica> {
  return startReplicaAt(network, { ...(await placeOfReplica(id)), ...(programFile !== undefined && { programFile }) });
}

/** Where a replica runs, and how. */
export interface ReplicaPlace {
  readonly id: string;
  readonly apiPort: number;
  readonly ctrlPort: number;
  /** Of Node. */
  readonly nodeOptions?: readonly string[];
  /** More variables of its environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** What it is started from; its sources when absent. */
  readonly programFile?: string;
}

export async function placeOfReplica(id: string, env: Readonly<Record<string, string>> = {}): Promise<ReplicaPlace> {
  const [apiPort = 0, ctrlPort = 0] = await freePorts(2);
  return { id, apiPort, ctrlPort, env };
}

/** The same where the process ran before. */
export async function startReplicaAt(
  network: Pick<Network, "controllerFile" | "folder">,
  { id, apiPort, ctrlPort, env = {}, nodeOptions = [], programFile = CONTROLLER_MAIN }: ReplicaPlace,
): Promise<Replica> {
  const program = new Program({
    name: id,
    command: process.execPath,
    args: [...nodeOptions, programFile, "run", network.controllerFile],
    env: {
      ...env,
      SALLYPORT_REPLICA_ID: id,
      SALLYPORT_REPLICA_API_BIND: `127.0.0.1:${apiPort}`,
      SALLYPORT_REPLICA_API_ADVERTISE: `localhost:${apiPort}`,
      SALLYPORT_REPLICA_CTRL_BIND: `127.0.0.1:${ctrlPort}`,
      SALLYPORT_REPLICA_CTRL_ADVERTISE: `localhost:${ctrlPort}`,
    },
    logFile: join(network.folder, `${id}.log`),
  });
  await program.ready("its port", () => accepts(apiPort));
  return { id, apiPort, ctrlPort, program };
}

/** A further controller process of a network, which is ended and started again. */
export class RestartedReplica {
  readonly #network: Network;
  readonly #place: ReplicaPlace;
  #program: Program;

  private constructor(network: Network, place: ReplicaPlace, program: Program) {
    this.#network = network;
    this.#place = place;
    this.#program = program;
  }

  static async start(network: Network, id: string): Promise<RestartedReplica> {
    const place = await placeOfReplica(id);
    return new RestartedReplica(network, place, (await startReplicaAt(network, place)).program);
  }

  get program(): Program {
    return this.#program;
  }

  get id(): string {
    return this.#place.id;
  }

  async restart(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    await this.#program.end(signal);
    this.#program = (await startReplicaAt(this.#network, this.#place)).program;
  }
}
