import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pause } from "@sallyport/async";
import { silentLogger } from "@sallyport/wire";
import { freePort, freePorts } from "@sallyport/wire/testing/free-ports";
import { EmbeddedPostgres } from "../../../../controller/src/store/postgres/embedded.ts";
import { BreakableWay } from "../../../../controller/src/store/testing/breakable-way.ts";
import { urlOf } from "../../../../controller/src/store/testing/oldest-server.ts";
import { eventually } from "../../../network/eventually.ts";
import { Program } from "../../../network/program.ts";
import { CONTROLLER_MAIN, initShared, type Replica, startReplicaAt } from "../../../network/replicas.ts";
import { type Answer, Asker, type CallOptions } from "./asker.ts";

interface Member {
  readonly id: string;
  readonly apiPort: number;
  readonly ctrlPort: number;
  readonly file: string;
  readonly way: BreakableWay;
  /** What it is started from. */
  programFile: string;
  replica: Replica;
}

/** Several controller processes on one PostgreSQL, each with a way of its own to it, and everything that can go wrong with them. */
export class ReplicaSet {
  readonly #folder: string;
  readonly #members: Member[] = [];
  readonly #asker = new Asker();
  #database: EmbeddedPostgres;

  private constructor(folder: string, database: EmbeddedPostgres) {
    this.#folder = folder;
    this.#database = database;
  }

  /**
   * Resolves when all of them answer.
   * @param programFile what they are started from; their sources when absent
   */
  static async start(folder: string, count: number, programFile = CONTROLLER_MAIN): Promise<ReplicaSet> {
    const set = new ReplicaSet(folder, await startDatabase(folder));
    try {
      await initShared(folder, urlOf(set.#database.connection), await freePort(), programFile);
      for (let n = 1; n <= count; n++) set.#members.push(await set.#startMember(`c${n}`, programFile));
      return set;
    } catch (error) {
      await set.stop();
      throw error;
    }
  }

  get size(): number {
    return this.#members.length;
  }

  idOf(at: number): string {
    return this.#member(at).id;
  }

  /** Asks the replica `at`; never rejects. */
  call(at: number, method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    return this.#asker.call(this.#member(at), method, path, options);
  }

  /** Ends a replica without warning and starts it again. */
  async kill(at: number): Promise<void> {
    const member = this.#member(at);
    await member.replica.program.end("SIGKILL");
    member.replica = await this.#startReplica(member);
  }

  /** Stops a replica in order, and starts it from another file, as in an upgrade; from its sources when absent. */
  async replace(at: number, programFile = CONTROLLER_MAIN): Promise<void> {
    const member = this.#member(at);
    const code = await member.replica.program.stop();
    if (code !== 0) throw new Error(`${member.id} ended with exit code ${code}`);
    member.programFile = programFile;
    member.replica = await this.#startReplica(member);
  }

  /** How to reach the database. */
  get connection(): EmbeddedPostgres["connection"] {
    return this.#database.connection;
  }

  /** Stops a replica; others go on. */
  async stopReplica(at: number): Promise<void> {
    await this.#member(at).replica.program.stop();
  }

  /** Runs a replica that was stopped, which is expected to end by itself: resolves with its exit code and the last lines that it printed. */
  async runToEnd(at: number): Promise<{ readonly code: number | null; readonly output: string }> {
    const { id, programFile, file } = this.#member(at);
    const env = { SALLYPORT_REPLICA_ID: id };
    const program = new Program({ name: id, command: process.execPath, args: [programFile, "run", file], env });
    try {
      return { code: await program.exited, output: program.tail.join("\n") };
    } finally {
      await program.stop();
    }
  }

  /** A replica stands still. */
  async halt(at: number, ms: number): Promise<void> {
    const { program } = this.#member(at).replica;
    program.signal("SIGSTOP");
    await pause(ms);
    program.signal("SIGCONT");
  }

  /** A replica does not reach the database. */
  async cut(at: number, ms: number): Promise<void> {
    const { way } = this.#member(at);
    await way.cut();
    await pause(ms);
    await way.restore();
  }

  /** The connections of a replica to the database end; new ones are made at once. */
  async reset(at: number): Promise<void> {
    await this.cut(at, 0);
  }

  /** Like {@link cut} for the one connection over which the replica renews its lease, which ends with its next message. */
  async loseLease(at: number): Promise<void> {
    this.#member(at).way.silenceAt("replica_lease");
  }

  async restartDatabase(): Promise<void> {
    await this.#database.stop();
    this.#database = await startDatabase(this.#folder);
  }

  /** Resolves when every replica answers a question for which it needs the database. */
  async answering(token: string): Promise<void> {
    for (const at of this.#members.keys()) {
      await eventually(
        `${this.idOf(at)} answers`,
        async () => {
          const { status, json } = await this.call(at, "GET", "/edge/management/v1/services?limit=1", { token });
          return status === 200 || Promise.reject(new Error(`${status} ${JSON.stringify(json)}`));
        },
        60_000,
      );
    }
  }

  /** Resident memory of each replica in MB; nothing where the system does not tell. */
  memory(): number[] {
    if (process.platform !== "linux") return [];
    return this.#members.map(({ replica }) => {
      const [, pages = "0"] = readFileSync(`/proc/${replica.program.pid}/statm`, "utf8").split(" ");
      return Math.round((Number(pages) * 4_096) / 1_000_000);
    });
  }

  async stop(): Promise<void> {
    this.#asker.close();
    for (const { replica } of this.#members) replica.program.signal("SIGCONT");
    await Promise.all(this.#members.map(({ replica }) => replica.program.stop()));
    for (const { way } of this.#members) await way.close();
    await this.#database.stop();
  }

  #member(at: number): Member {
    const member = this.#members[at % this.#members.length];
    if (member === undefined) throw new Error("the set has no replica");
    return member;
  }

  async #startMember(id: string, programFile: string): Promise<Member> {
    const [apiPort = 0, ctrlPort = 0] = await freePorts(2);
    const { connection } = this.#database;
    const way = await BreakableWay.to(connection);
    const settings = readFileSync(join(this.#folder, "controller", "controller.yml"), "utf8");
    const own = settings.replace(urlOf(connection), () => urlOf(way.connection));
    if (own === settings) throw new Error("the controller's file does not hold the URL of the database");
    const file = join(this.#folder, "controller", `${id}.yml`);
    writeFileSync(file, own, { mode: 0o600 });
    const member = { id, apiPort, ctrlPort, file, way, programFile };
    return { ...member, replica: await this.#startReplica(member) };
  }

  #startReplica({ id, apiPort, ctrlPort, file, programFile }: Omit<Member, "replica">): Promise<Replica> {
    return startReplicaAt({ controllerFile: file, folder: this.#folder }, { id, apiPort, ctrlPort, programFile });
  }
}

function startDatabase(folder: string): Promise<EmbeddedPostgres> {
  // The server and not the machine fails here: what it has written is in the memory of the operating system.
  const settings = { max_connections: "150", fsync: "off", full_page_writes: "off" };
  return EmbeddedPostgres.start({ dir: join(folder, "db"), settings, log: silentLogger });
}
