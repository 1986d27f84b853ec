import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Backoff, Listeners, nextCall, pause } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type pg from "pg";
import type { DatabaseClock } from "../clock/database-clock.ts";
import { DatabaseHeldError } from "../postgres/holder-lock.ts";
import { ask, CONNECTION_LIMITS, StoreClient } from "../postgres/store-client.ts";
import { SchemaTooNewError } from "../upgrade/schema-state.ts";
import { Leadership } from "./leadership.ts";
import { endLease, LEASE_MS, RENEW_MS, REPLICA_PREFIX, type Renewal, renewLease } from "./lease.ts";
import { CHANNEL, messageText, notify, type ReplicaMessage, readMessage } from "./messages.ts";
import { type OtherReplica, Spread } from "./spread.ts";

/** How long an answer waits at most until the others know what it is about: what they answer from memory is not as old ({@link MEMORY_MS}). */
const MAX_SPREAD_MS = 1_000;
/** How old what is in memory may be, counted from when the change log was last read. */
export const MEMORY_MS = 800;
const REPEAT_MS = 200;
const MAX_NAME_LENGTH = 63;
/** How much longer a process waits at its start for one that leads: where all start at once, the database and the machines are busy. */
const LEADER_PATIENCE_MS = 30_000;

/** Another process has the id of this replica. */
export class ReplicaIdTakenError extends DatabaseHeldError {
  override name = "ReplicaIdTakenError";

  constructor(replicaId: string, holder: string) {
    super(
      holder,
      "",
      `the replica id '${replicaId}' is in use by ${holder}: give every process on the database an id of its own`,
    );
  }
}

export interface ReplicaLinkOptions {
  readonly connection: pg.ClientConfig;
  /** How long the server may take to answer. */
  readonly answerMs: number;
  readonly replicaId: string;
  /** The schema level of this program, and its version. */
  readonly level: number;
  readonly version?: string | undefined;
  /** Default: host and process number. */
  readonly name?: string | undefined;
  /** Reads the change log: resolves when everything is known that was committed before the call. */
  readonly readLog: () => Promise<void>;
  /** Learns the time of the database from what it answers anyway. */
  readonly clock?: Pick<DatabaseClock, "heard">;
  /** A controller that works alone has taken the database, or its schema has become too new for this program: stop. */
  readonly onLost: (error: DatabaseHeldError) => void;
  readonly log: Logger;
}

/**
 * The connection over which a process takes part among those on one database. It renews the lease of the process, tells the others that something was written
 * and when this process knows what they have written, and makes one of them the leader: the one that holds the advisory lock, under an epoch that it began.
 * Source: docs/protocol/replicas.md.
 */
export class ReplicaLink {
  /** Of this process: a replica that starts again is another one. */
  readonly instance = randomUUID();
  readonly #options: ReplicaLinkOptions;
  readonly #name: string;
  readonly #spread = new Spread();
  readonly #leadership: Leadership;
  readonly #backoff = new Backoff({ firstMs: 100, maxMs: 1_000 });
  #client: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Number of this process's newest message, and of the one that the others have to know before an answer goes out. */
  #count = 0;
  #due = 0;
  /** When the lease was last renewed, of the steady clock. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** Grows when the lease is renewed so late that others may have taken over. */
  #term = 0;
  readonly #looked = new Listeners();
  /** The others know of this process, and it has read the log since. */
  #isMember = false;
  /** How often it was no member any more: one that joins meanwhile has to begin again. */
  #leaves = 0;
  #isJoining = false;
  #outgoing: ReplicaMessage[] = [];
  #isSending = false;
  /** Messages of others that are to be answered. */
  readonly #unanswered = new Map<string, number>();
  #isAnswering = false;

  constructor(options: ReplicaLinkOptions) {
    this.#options = options;
    this.#name = (REPLICA_PREFIX + (options.name ?? `on ${hostname()}, process ${process.pid}`)).slice(
      0,
      MAX_NAME_LENGTH,
    );
    const { connection, answerMs, log } = options;
    this.#leadership = new Leadership({
      ...{ connection, answerMs, name: this.#name, log },
      onSilent: (client, error) => this.#lost(client, error),
    });
  }

  /**
   * Resolves when some process leads, and so an epoch of the present life of the database runs. The schema must be there.
   * @throws DatabaseHeldError when a controller works alone on the database; SchemaTooNewError; ReplicaIdTakenError; what the server says
   */
  async start(patienceMs = 3_000 + LEASE_MS): Promise<void> {
    const until = performance.now() + patienceMs;
    // A controller that has just been killed holds its lock for another moment.
    while (this.#client === undefined) {
      await this.#connect().catch((error: unknown) => {
        const isPassing = error instanceof DatabaseHeldError && !(error instanceof SchemaTooNewError);
        if (!isPassing || performance.now() > until) throw error;
      });
      if (this.#client === undefined) await pause(REPEAT_MS);
    }
    for (;;) {
      const taken = this.others.find(({ replicaId }) => replicaId === this.#options.replicaId);
      if (taken === undefined && this.#leadership.isLed) return;
      if (taken !== undefined && performance.now() > until) {
        await this.close();
        throw new ReplicaIdTakenError(taken.replicaId, taken.name);
      }
      if (performance.now() > until + LEADER_PATIENCE_MS) {
        await this.close();
        throw new Error("no controller on the database became the leader");
      }
      await nextCall((listener) => this.onLeadership(listener), REPEAT_MS);
    }
  }

  /** The other processes on the database. */
  get others(): readonly OtherReplica[] {
    return this.#spread.others;
  }

  /** Is this process the one that does what has to be done once? */
  get isLeader(): boolean {
    return this.epoch !== undefined;
  }

  /** The epoch of this process as the leader. What writes under it is refused once another process leads. */
  get epoch(): string | undefined {
    return this.#leadership.epoch;
  }

  /** Calls `listener` when this process may have become the leader, or is it no more. */
  onLeadership(listener: () => void): () => void {
    return this.#leadership.onChange(listener);
  }

  /** Is this process told in time of what the others write? */
  get isTold(): boolean {
    return this.#isMember && this.#hasLease;
  }

  get #hasLease(): boolean {
    return performance.now() - this.#renewedAt < LEASE_MS;
  }

  /** See {@link Replica.leaseTerm}. */
  get leaseTerm(): number | undefined {
    return this.#hasLease ? this.#term : undefined;
  }

  /** Calls `listener` after every look at the leases. */
  onLook(listener: () => void): () => void {
    return this.#looked.add(listener);
  }

  /** This process has committed something. `isAwaited`: answers wait until the others know it. */
  written(isAwaited: boolean): void {
    this.#count += 1;
    if (isAwaited) this.#due = this.#count;
    this.#tellWritten();
  }

  /** Resolves when every other process knows what this one has written so far, or answers from memory no more what is older: within a second. */
  async known(): Promise<void> {
    const count = this.#due;
    const until = performance.now() + MAX_SPREAD_MS;
    // Without a lease, others may have become members that this process has not heard of.
    while (!this.#hasLease || !this.#spread.isKnownByAll(count)) {
      const leftMs = until - performance.now();
      if (leftMs <= 0) return;
      const asked = performance.now();
      await this.#spread.nextChange(Math.min(leftMs, REPEAT_MS));
      if (performance.now() - asked >= REPEAT_MS) this.#tellWritten();
    }
  }

  /** A write was refused under the epoch of this process. */
  fenced(): void {
    if (this.isLeader) this.#leadership.resign();
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#isMember = false;
    this.#leadership.lost();
    const client = this.#client;
    this.#client = undefined;
    if (client === undefined) return;
    const { answerMs } = this.#options;
    await endLease(client, this.instance, answerMs).catch(() => undefined);
    await client.end().catch(() => undefined);
  }

  async #connect(): Promise<void> {
    const { connection, answerMs } = this.#options;
    const client = new StoreClient({
      ...connection,
      ...CONNECTION_LIMITS,
      connectionTimeoutMillis: answerMs,
      application_name: this.#name,
    });
    client.on("error", (error) => this.#lost(client, error));
    client.on("end", () => this.#lost(client, undefined));
    client.on("notification", ({ payload }) => this.#heard(payload));
    this.#client = client;
    try {
      await client.connect();
      await ask(client, `LISTEN ${CHANNEL}`, undefined, answerMs);
      await this.#renew(client);
      this.#backoff.reset();
    } catch (error) {
      this.#client = undefined;
      client.end().catch(() => undefined);
      throw error;
    }
  }

  #lost(client: pg.Client, error: unknown): void {
    if (this.#isClosed || this.#client !== client) return;
    this.#client = undefined;
    clearTimeout(this.#timer);
    this.#leave();
    this.#leadership.lost();
    const fields = { error: String(error ?? "connection ended") };
    this.#options.log.warn(
      fields,
      "the connection to the other controllers on the database was lost; connecting again",
    );
    client.end().catch(() => undefined);
    this.#again();
  }

  #again(): void {
    this.#timer = setTimeout(() => {
      this.#connect().catch((error: unknown) => {
        if (this.#isClosed) return;
        if (error instanceof DatabaseHeldError) this.#options.onLost(error);
        else this.#again();
      });
    }, this.#backoff.next()).unref();
  }

  /** Renews the lease, and goes on renewing it. */
  async #renew(client: pg.Client): Promise<void> {
    const startedAt = performance.now();
    const look = this.#spread.look();
    const renewal = await this.#renewLease(client, this.#leadership.campaigns);
    if (this.#isClosed || this.#client !== client) return;
    if (!this.#hasLease) {
      // The others may not have counted with this process for a while, since the server renewed the lease as late as now: they have to hear of it again.
      this.#leave();
      this.#term += 1;
    }
    this.#renewedAt = startedAt;
    this.#spread.looked(look, renewal.others, this.#count);
    await this.#leadership.renewed(client, renewal);
    this.#looked.emit();
    if (!this.#isMember && !this.#isJoining) void this.#join();
    this.#timer = setTimeout(() => {
      this.#renew(client).catch((error: unknown) => this.#lost(client, error));
    }, RENEW_MS).unref();
  }

  #leave(): void {
    this.#isMember = false;
    this.#leaves += 1;
  }

  /**
   * @param campaigns whether to try to get the lock of the leader
   * @throws SchemaTooNewError
   */
  async #renewLease(client: pg.Client, campaigns: boolean): Promise<Renewal> {
    const { answerMs, replicaId, level, version = "", clock } = this.#options;
    const own = { instance: this.instance, replicaId, name: this.#name, leads: this.isLeader, campaigns };
    const asked = renewLease(client, { ...own, level, version }, answerMs);
    await clock?.heard(async () => (await asked).at);
    const renewal = await asked;
    if (renewal.worksFrom > level) throw new SchemaTooNewError(renewal.worksFrom, level);
    return renewal;
  }

  /** Becomes a member: every other process hears of this one, which then reads the log. */
  async #join(): Promise<void> {
    this.#isJoining = true;
    const client = this.#client;
    const leaves = this.#leaves;
    try {
      if (client === undefined) return;
      // Leases that were written beside the first renewal are seen by the second.
      const look = this.#spread.look();
      const { others } = await this.#renewLease(client, false);
      this.#spread.looked(look, others, this.#count);
      this.#count += 1;
      for (const hello = this.#count; !this.#spread.isKnownByAll(hello); ) {
        if (this.#client !== client) return;
        this.#tellWritten();
        await this.#spread.nextChange(REPEAT_MS);
      }
      await this.#options.readLog();
      this.#isMember = this.#client === client && this.#leaves === leaves && !this.#isClosed;
    } catch (error) {
      // The next renewal tries again.
      this.#options.log.debug({ error: String(error) }, "the other controllers could not be told of this one");
    } finally {
      this.#isJoining = false;
    }
  }

  #tellWritten(): void {
    const message = { kind: "written", from: this.instance, count: this.#count } as const;
    this.#send(message);
  }

  #send(message: ReplicaMessage): void {
    // A later message of the same kind says all that an earlier one said.
    this.#outgoing = this.#outgoing.filter((each) => !isReplaced(each, message));
    this.#outgoing.push(message);
    if (!this.#isSending) void this.#sendAll();
  }

  async #sendAll(): Promise<void> {
    this.#isSending = true;
    const client = this.#client;
    try {
      while (client !== undefined && this.#client === client && this.#outgoing.length > 0) {
        const texts = this.#outgoing.splice(0).map(messageText);
        await notify(client, texts, this.#options.answerMs);
      }
    } catch (error) {
      if (client !== undefined) this.#lost(client, error);
    } finally {
      this.#isSending = false;
    }
  }

  #heard(payload: string | undefined): void {
    const message = readMessage(payload);
    if (message?.from === this.instance) return;
    if (message === undefined) {
      // A command beside the controllers has written.
      void this.#options.readLog().catch(() => undefined);
      return;
    }
    this.#spread.heardOf(message.from, this.#count);
    if (message.kind === "seen") {
      if (message.to === this.instance) this.#spread.seenBy(message.from, message.count);
      return;
    }
    this.#unanswered.set(message.from, Math.max(message.count, this.#unanswered.get(message.from) ?? 0));
    if (!this.#isAnswering) void this.#answer();
  }

  async #answer(): Promise<void> {
    this.#isAnswering = true;
    try {
      while (this.#unanswered.size > 0) {
        const messages = [...this.#unanswered];
        this.#unanswered.clear();
        await this.#options.readLog();
        for (const [to, count] of messages) this.#send({ kind: "seen", from: this.instance, to, count });
      }
    } catch {
      // The senders repeat what is not answered; the store reports an outage.
    } finally {
      this.#isAnswering = false;
    }
  }
}

function isReplaced(earlier: ReplicaMessage, later: ReplicaMessage): boolean {
  if (earlier.kind === "written") return later.kind === "written";
  return later.kind === "seen" && earlier.to === later.to;
}
