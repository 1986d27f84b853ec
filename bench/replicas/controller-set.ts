import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import { freePort, freePorts } from "@sallyport/wire/testing/free-ports";
import pg from "pg";
import { EmbeddedPostgres } from "../../controller/src/store/postgres/embedded.ts";
import { urlOf } from "../../controller/src/store/testing/oldest-server.ts";
import { ADMIN_PASSWORD } from "../../e2e/network/network.ts";
import { initShared, type Replica, type ReplicaPlace, startReplicaAt } from "../../e2e/network/replicas.ts";
import { PROGRAM_IMAGES } from "../../images/programs.ts";
import { LoadClient } from "../api/http-client.ts";
import { processTree, sharedMiB, treeCpuSeconds } from "../api/processes.ts";
import { residentMiB } from "../dataplane/usage.ts";

/** As images start it, with what `SALLYPORT_BENCH_NODE_OPTIONS` adds. */
export const NODE_OPTIONS = [
  ...(PROGRAM_IMAGES.controller?.nodeFlags ?? []),
  ...(process.env.SALLYPORT_BENCH_NODE_OPTIONS?.split(" ") ?? []),
];
const MAX_CONNECTIONS = "150";

function startDatabase(folder: string): Promise<EmbeddedPostgres> {
  const settings = { max_connections: MAX_CONNECTIONS };
  return EmbeddedPostgres.start({ dir: join(folder, "db"), settings, log: silentLogger });
}

/** A controller that is measured. */
export interface Member extends ReplicaPlace {
  readonly replica: Replica;
  readonly client: LoadClient;
}

/** Several controllers on one PostgreSQL, without routers. The same session is good at each of them. */
export class ControllerSet {
  /** None where a row runs it itself. */
  readonly #database: EmbeddedPostgres | undefined;
  readonly #folder: string;
  readonly #file: string;
  readonly #members: Member[] = [];

  private constructor(folder: string, database: EmbeddedPostgres | undefined, file: string) {
    this.#folder = folder;
    this.#database = database;
    this.#file = file;
  }

  /** With a PostgreSQL that keeps what it acknowledges. */
  static async start(folder: string, count: number): Promise<ControllerSet> {
    const database = await startDatabase(folder);
    try {
      return await ControllerSet.startOn(urlOf(database.connection), folder, count, database);
    } catch (error) {
      await database.stop();
      throw error;
    }
  }

  /** @param database that is stopped with the controllers */
  static async startOn(
    url: string,
    folder: string,
    count: number,
    database?: EmbeddedPostgres,
  ): Promise<ControllerSet> {
    // The first controller is also at the address that tokens name.
    const [port = 0, ...others] = await freePorts(count);
    const set = new ControllerSet(folder, database, await initShared(folder, url, port));
    for (const [index, apiPort] of [port, ...others].entries()) await set.#add(`c${index + 1}`, apiPort);
    return set;
  }

  get members(): readonly Member[] {
    return this.#members;
  }

  at(index: number): Member {
    const member = this.#members[index];
    if (member === undefined) throw new Error(`there is no controller ${index}`);
    return member;
  }

  async query<T>(work: (database: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client(this.#embedded.connection);
    await client.connect();
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  }

  /** CPU seconds of each controller so far. */
  cpuSeconds(): number[] {
    return this.#members.map(({ replica }) => treeCpuSeconds([replica.program.pid]));
  }

  async databaseCpuSeconds(): Promise<number> {
    return databaseCpuSeconds(this.#embedded);
  }

  /** Of each controller that runs. */
  residentMiB(): number[] {
    return this.#members
      .filter(({ replica }) => replica.program.isRunning)
      .map(({ replica }) => residentMiB(replica.program.pid));
  }

  async databaseMiB(): Promise<number> {
    return sharedMiB(processTree((await this.#embedded.pid()) ?? -1));
  }

  /** Ends all controllers without warning and starts them at once; resolves when they answer. */
  async restartAll(): Promise<void> {
    for (const { replica } of this.#members) replica.program.signal("SIGKILL");
    await Promise.all(this.#members.map((_, index) => this.restart(index)));
  }

  /** Starts a controller that was killed. */
  async restart(index: number): Promise<void> {
    const { id, apiPort, ctrlPort, client, replica } = this.at(index);
    await replica.program.stop();
    this.#members[index] = { ...(await this.#run({ id, apiPort, ctrlPort })), client };
  }

  async stop(): Promise<void> {
    for (const { client } of this.#members) client.close();
    await Promise.all(this.#members.map(({ replica }) => replica.program.stop()));
    await this.#database?.stop();
  }

  get #embedded(): EmbeddedPostgres {
    if (this.#database === undefined) throw new Error("the database runs elsewhere");
    return this.#database;
  }

  async #add(id: string, apiPort: number): Promise<void> {
    const started = await this.#run({ id, apiPort, ctrlPort: await freePort() });
    const client = new LoadClient(apiPort);
    const [first] = this.#members;
    this.#members.push({ ...started, client });
    if (first === undefined) await client.login("admin", ADMIN_PASSWORD);
    else client.token = first.client.token;
  }

  async #run(place: Omit<ReplicaPlace, "nodeOptions">): Promise<Omit<Member, "client">> {
    const where = { controllerFile: this.#file, folder: this.#folder };
    return { ...place, replica: await startReplicaAt(where, { ...place, nodeOptions: NODE_OPTIONS }) };
  }
}

/** CPU seconds of a server with all of its processes, those that have ended too. */
async function databaseCpuSeconds(database: EmbeddedPostgres): Promise<number> {
  return treeCpuSeconds(processTree((await database.pid()) ?? -1));
}
