import { join } from "node:path";
import { pause } from "@sallyport/async";
import type { Context, EdgeConnection } from "@sallyport/sdk";
import { silentLogger } from "@sallyport/wire";
import { EmbeddedPostgres } from "../../controller/src/store/postgres/embedded.ts";
import { urlOf } from "../../controller/src/store/testing/oldest-server.ts";
import { type Answer, Asker, type CallOptions } from "../system/replicas/history/asker.ts";
import { exchange } from "./bytes.ts";
import { Contexts } from "./contexts.ts";
import { eventually } from "./eventually.ts";
import { hostEcho } from "./hosted-echo.ts";
import { declareService, type Network } from "./network.ts";
import type { Program } from "./program.ts";
import { placeOfReplica, startReplicaAt, startShared } from "./replicas.ts";

const HEAL_MS = 120_000;
const ROUTERS = 2;

/** Where a controller answers the test, and how it is started there. */
export interface MemberPlace {
  readonly id: string;
  readonly apiPort: number;
  start(): Promise<Program>;
}

export interface ReplicaNetworkOptions {
  /** Folder of the database; one in the network's folder when absent. */
  readonly databaseDir?: string;
  readonly databaseSettings?: Readonly<Record<string, string>>;
  /** Makes the last controller's place beside the others; where they are when absent. */
  readonly last?: (network: Network, others: readonly MemberPlace[]) => Promise<MemberPlace>;
}

interface Member extends MemberPlace {
  program: Program;
}

/** Three controllers on a PostgreSQL of their own, two routers, and an echo from `r1` to `r2`: what faults are tried on. */
export class ReplicaNetwork {
  readonly network: Network;
  readonly #folder: string;
  readonly #options: ReplicaNetworkOptions;
  readonly #members: Member[] = [];
  readonly #asker = new Asker();
  readonly #contexts = new Contexts();
  #database: EmbeddedPostgres;
  #client: Context | undefined;

  private constructor(folder: string, network: Network, database: EmbeddedPostgres, options: ReplicaNetworkOptions) {
    this.#folder = folder;
    this.network = network;
    this.#database = database;
    this.#options = options;
  }

  /** Resolves when all controllers answer, and the echo does. */
  static async start(folder: string, options: ReplicaNetworkOptions = {}): Promise<ReplicaNetwork> {
    const database = await startDatabase(folder, options);
    let network: Network | undefined;
    try {
      network = await startShared(join(folder, "network"), urlOf(database.connection));
      const started = new ReplicaNetwork(folder, network, database, options);
      await started.#prepare();
      return started;
    } catch (error) {
      await network?.stop();
      await database.stop();
      throw error;
    }
  }

  get database(): EmbeddedPostgres {
    return this.#database;
  }

  get size(): number {
    return this.#members.length;
  }

  idOf(at: number): string {
    return this.#member(at).id;
  }

  /** The controllers' and routers' programs by name. */
  get programs(): ReadonlyMap<string, Program> {
    const routers = this.network.routers.map((router): [string, Program] => [router.name, router]);
    return new Map([...this.#members.map(({ id, program }): [string, Program] => [id, program]), ...routers]);
  }

  /** Asks a controller; never rejects. */
  call(at: number, method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    return this.#asker.call(this.#member(at), method, path, options);
  }

  /** Ends a controller; it is down until {@link start}. */
  async end(at: number, signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    const member = this.#member(at);
    if (at === 0) await this.network.stopProgram("controller", signal);
    else await member.program.end(signal);
  }

  async start(at: number): Promise<void> {
    const member = this.#member(at);
    member.program = await member.start();
  }

  /** A controller stands still. */
  async halt(at: number, ms: number): Promise<void> {
    const { program } = this.#member(at);
    program.signal("SIGSTOP");
    try {
      await pause(ms);
    } finally {
      program.signal("SIGCONT");
    }
  }

  async restartDatabase(): Promise<void> {
    await this.#database.stop();
    this.#database = await startDatabase(this.#folder, this.#options);
  }

  /** Ends the database server without warning; it is started again at once. */
  async killDatabase(): Promise<void> {
    const pid = await this.#database.pid();
    if (pid === undefined) throw new Error("the database server does not run");
    process.kill(pid, "SIGKILL");
    await eventually("another database server", async () => ![undefined, pid].includes(await this.#database.pid()));
  }

  dial(): Promise<EdgeConnection> {
    if (this.#client === undefined) throw new Error("there is no client yet");
    return this.#client.dial("echo", { allowHalfOpen: true, timeoutMs: 10_000 });
  }

  /** Resolves when a new circuit carries an echo. */
  async echoes(): Promise<void> {
    const echo = async (): Promise<true> => {
      await exchange(await this.dial(), 1, 10_000);
      return true;
    };
    await eventually("a new circuit", echo, HEAL_MS);
  }

  /** The place of the controller that leads. */
  async leader(token: string): Promise<number> {
    return eventually("a leader", async () => {
      for (const at of this.#members.keys()) {
        const lines = this.#member(at).program.tail;
        const last = lines.findLast((line) => /this controller leads/.test(line));
        const { status } = await this.call(at, "GET", "/edge/management/v1/services?limit=1", { token });
        if (status === 200 && last?.includes("leads:")) return at;
      }
      return undefined;
    });
  }

  /** Resolves when nothing is left of a fault: each controller answers, has all routers, and shows one link and one terminator, the same as the others. */
  async whole(token: string): Promise<void> {
    const shown = new Map<string, string>();
    for (const at of this.#members.keys()) {
      const get = (path: string) => this.#get(at, path, token);
      await eventually(
        `${this.idOf(at)} has everything again`,
        async () => {
          const routers = await get("/edge/management/v1/edge-routers");
          const online = routers.filter(({ isOnline }) => isOnline).length;
          const links = (await get("/fabric/v1/links")).filter(({ state }) => /connected/i.test(String(state)));
          const terminators = await get("/fabric/v1/terminators");
          const found = { online, links: links.map(({ id }) => id), terminators: terminators.map(({ id }) => id) };
          shown.set(this.idOf(at), JSON.stringify([found.links, found.terminators]));
          if (online === ROUTERS && links.length === 1 && terminators.length === 1) return true;
          throw new Error(JSON.stringify(found));
        },
        HEAL_MS,
      );
    }
    if (new Set(shown.values()).size > 1) throw new Error(`the controllers differ: ${JSON.stringify([...shown])}`);
  }

  /** Resolves when no controller and no router has a circuit any more. */
  async withoutCircuits(token: string): Promise<void> {
    for (const at of this.#members.keys()) {
      const none = async () => {
        const circuits = await this.#get(at, "/fabric/v1/circuits", token);
        if (circuits.length > 0) throw new Error(`${circuits.length} circuits at ${this.idOf(at)}`);
        return true;
      };
      await eventually("no circuit is left", none, 300_000);
    }
    const body = { appRegex: ".*", requestedValues: ["router-circuits"] };
    const noneAtRouters = async () => {
      const { json } = await this.call(0, "POST", "/fabric/v1/inspections", { token, body });
      const values: { appId: string; value: { circuits?: object } }[] = json.values ?? [];
      const left = values.flatMap(({ appId, value }) =>
        Object.keys(value.circuits ?? {}).map((id) => `${id} at ${appId}`),
      );
      if (left.length > 0) throw new Error(left.join(", "));
      return values.length === ROUTERS;
    };
    await eventually("no router has a circuit", noneAtRouters, 300_000);
  }

  async stop(): Promise<void> {
    this.#asker.close();
    for (const { program } of this.#members) program.signal("SIGCONT");
    await this.#contexts.close();
    await Promise.all(this.#members.slice(1).map(({ program }) => program.stop()));
    await this.network.stop();
    await this.#database.stop();
  }

  async #prepare(): Promise<void> {
    const { network } = this;
    const first = { id: "c1", apiPort: network.port, start: () => network.startController() };
    this.#members.push({ ...first, program: network.controller });
    try {
      for (const id of ["c2", "c3"]) {
        const own = id === "c3" ? await this.#options.last?.(network, this.#members) : undefined;
        const place = own ?? (await this.#placeHere(id));
        this.#members.push({ ...place, program: await place.start() });
      }
      const { hostFile, clientFile } = await declareService(network, { name: "echo" });
      await hostEcho(await this.#contexts.load(hostFile), "echo");
      this.#client = await this.#contexts.load(clientFile);
      await this.echoes();
    } catch (error) {
      await this.#contexts.close();
      await Promise.all(this.#members.slice(1).map(({ program }) => program.stop()));
      throw error;
    }
  }

  async #placeHere(id: string): Promise<MemberPlace> {
    const place = await placeOfReplica(id);
    return { id, apiPort: place.apiPort, start: async () => (await startReplicaAt(this.network, place)).program };
  }

  async #get(at: number, path: string, token: string): Promise<Record<string, unknown>[]> {
    const { status, json } = await this.call(at, "GET", `${path}?limit=500`, { token });
    if (status !== 200) throw new Error(`${path} at ${this.idOf(at)} answered ${status}: ${JSON.stringify(json)}`);
    return json.data;
  }

  #member(at: number): Member {
    const member = this.#members[at];
    if (member === undefined) throw new Error(`there is no controller ${at}`);
    return member;
  }
}

function startDatabase(
  folder: string,
  { databaseDir, databaseSettings }: ReplicaNetworkOptions,
): Promise<EmbeddedPostgres> {
  // The server and not the machine fails: what it has written is in the memory of the operating system.
  const settings = { max_connections: "150", fsync: "off", full_page_writes: "off", ...databaseSettings };
  return EmbeddedPostgres.start({ dir: databaseDir ?? join(folder, "db"), settings, log: silentLogger });
}
