import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { Backoff, Listeners, nextCall } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type pg from "pg";
import { beginEpoch } from "../postgres/epoch.ts";
import { DatabaseHeldError } from "../postgres/holder-lock.ts";
import { ask, CONNECTION_LIMITS, StoreClient, withClient } from "../postgres/store-client.ts";
import {
  endConnection,
  endLease,
  LEASE_MS,
  leaderLockHolder,
  RENEW_MS,
  REPLICA_PREFIX,
  type Renewal,
  renewLease,
} from "./lease.ts";
import { CHANNEL, messageText, type ReplicaMessage, readMessage } from "./messages.ts";
import { type OtherReplica, Spread } from "./spread.ts";

/** How long an answer waits at most until the others know what it is about: what they answer from memory is not as old ({@link MEMORY_MS}). */
const MAX_SPREAD_MS = 1_000;
/** How old what is in memory may be, counted from when the change log was last read. */
export const MEMORY_MS = 800;
const REPEAT_MS = 200;
const MAX_NAME_LENGTH = 63;

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
  /** Default: host and process number. */
  readonly name?: string | undefined;
  /** Reads the change log: resolves when everything is known that was committed before the call. */
  readonly readLog: () => Promise<void>;
  /** A controller that works alone has taken the database: stop. */
  readonly onLost: (error: DatabaseHeldError) => void;
  readonly log: Logger;
}

/**
 * The connection over which a process takes part among those on one database. It renews the lease of the process, tells the others that something was written
 * and when this process knows what they have written, and makes one of them the leader: whoever holds the advisory lock, under an epoch that it began.
 * Source: docs/protocol/replicas.md.
 */
export class ReplicaLink {
  /** Of this process: a replica that starts again is another one. */
  readonly instance = randomUUID();
  readonly #options: ReplicaLinkOptions;
  readonly #name: string;
  readonly #spread = new Spread();
  readonly #leadershipChanged = new Listeners();
  readonly #backoff = new Backoff({ firstMs: 100, maxMs: 1_000 });
  #client: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Number of this process's newest message, and of the one that the others have to know before an answer goes out. */
  #count = 0;
  #due = 0;
  /** When the lease was last renewed, of the steady clock. */
  #renewedAt = Number.NEGATIVE_INFINITY;
  /** The others know of this process, and it has read the log since. */
  #isMember = false;
  #isJoining = false;
  #outgoing: ReplicaMessage[] = [];
  #isSending = false;
  /** Messages of others that are to be answered. */
  readonly #unanswered = new Map<string, number>();
  #isAnswering = false;
  #hasLock = false;
  #epoch: string | undefined;
  #isBeginning = false;
  /** Does a leader work, here or elsewhere? */
  #isLed = false;

  constructor(options: ReplicaLinkOptions) {
    this.#options = options;
    this.#name = (REPLICA_PREFIX + (options.name ?? `on ${hostname()}, process ${process.pid}`)).slice(
      0,
      MAX_NAME_LENGTH,
    );
  }

  /**
   * Resolves when some process leads, and so an epoch of the present life of the database runs. The schema must be there.
   * @throws DatabaseHeldError when a controller works alone on the database; ReplicaIdTakenError; what the server says
   */
  async start(patienceMs = 3_000 + LEASE_MS): Promise<void> {
    await this.#connect();
    const until = performance.now() + patienceMs;
    for (;;) {
      const taken = this.others.find(({ replicaId }) => replicaId === this.#options.replicaId);
      if (taken === undefined && this.#isLed) return;
      if (performance.now() > until) {
        await this.close();
        if (taken !== undefined) throw new ReplicaIdTakenError(taken.replicaId, taken.name);
        throw new Error("no controller on the database became the leader");
      }
      await nextCall((listener) => this.#leadershipChanged.add(listener), REPEAT_MS);
    }
  }

  /** The other processes on the database. */
  get others(): readonly OtherReplica[] {
    return this.#spread.others;
  }

  /** Is this process the one that does what has to be done once? */
  get isLeader(): boolean {
    return this.#epoch !== undefined;
  }

  /** The epoch of this process as the leader. What writes under it is refused once another process leads. */
  get epoch(): string | undefined {
    return this.#epoch;
  }

  /** Calls `listener` when this process may have become the leader, or is it no more. */
  onLeadership(listener: () => void): () => void {
    return this.#leadershipChanged.add(listener);
  }

  /** Is this process told in time of what the others write? */
  get isTold(): boolean {
    return this.#isMember && performance.now() - this.#renewedAt < LEASE_MS;
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
    while (!this.#spread.isKnownByAll(count)) {
      const leftMs = until - performance.now();
      if (leftMs <= 0) return;
      const asked = performance.now();
      await this.#spread.nextChange(Math.min(leftMs, REPEAT_MS));
      if (performance.now() - asked >= REPEAT_MS) this.#tellWritten();
    }
  }

  /** A write was refused under the epoch of this process. */
  fenced(): void {
    if (this.#epoch === undefined) return;
    this.#resign("another process leads");
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#isMember = false;
    this.#setEpoch(undefined);
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
    this.#isMember = false;
    this.#hasLock = false;
    this.#isLed = false;
    this.#setEpoch(undefined);
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
    const { answerMs, replicaId } = this.#options;
    const startedAt = performance.now();
    const look = this.#spread.look();
    const renewal = await renewLease(
      client,
      {
        instance: this.instance,
        replicaId,
        name: this.#name,
        leads: this.isLeader,
        campaigns: !this.#hasLock,
      },
      answerMs,
    );
    if (this.#isClosed || this.#client !== client) return;
    // The others did not count with this process for a while: they have to hear of it again.
    if (startedAt - this.#renewedAt >= LEASE_MS) this.#isMember = false;
    this.#renewedAt = startedAt;
    this.#spread.looked(look, renewal.others, this.#count);
    await this.#campaign(client, renewal);
    if (!this.#isMember && !this.#isJoining) void this.#join();
    this.#timer = setTimeout(() => {
      this.#renew(client).catch((error: unknown) => this.#lost(client, error));
    }, RENEW_MS).unref();
  }

  /** Becomes a member: every other process hears of this one, which then reads the log. */
  async #join(): Promise<void> {
    this.#isJoining = true;
    const client = this.#client;
    try {
      if (client === undefined) return;
      // Leases that were written beside the first renewal are seen by the second.
      const look = this.#spread.look();
      const own = { instance: this.instance, replicaId: this.#options.replicaId, name: this.#name };
      const renewing = { ...own, leads: this.isLeader, campaigns: false };
      const { others } = await renewLease(client, renewing, this.#options.answerMs);
      this.#spread.looked(look, others, this.#count);
      this.#count += 1;
      for (const hello = this.#count; !this.#spread.isKnownByAll(hello); ) {
        if (this.#client !== client) return;
        this.#tellWritten();
        await this.#spread.nextChange(REPEAT_MS);
      }
      await this.#options.readLog();
      this.#isMember = this.#client === client && !this.#isClosed;
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
        const text = "SELECT pg_notify($1, message) FROM unnest($2::text[]) AS message";
        await ask(client, text, [CHANNEL, texts], this.#options.answerMs);
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

  async #campaign(client: pg.Client, { others, epoch, hasLock }: Renewal): Promise<void> {
    const { answerMs } = this.#options;
    if (hasLock) this.#hasLock = true;
    if (this.#hasLock) {
      if (this.#epoch !== undefined && epoch !== this.#epoch) this.#resign("another process leads");
      else if (this.#epoch === undefined && !this.#isBeginning) void this.#begin(client);
      return;
    }
    const isLed = others.some(({ leads }) => leads);
    if (isLed) return this.#setLed();
    const holder = await leaderLockHolder(client, answerMs);
    if (holder === undefined || holder.pid === pidOf(client)) return;
    if (!holder.application.startsWith(REPLICA_PREFIX)) {
      throw new DatabaseHeldError(holder.application, ` since ${holder.since.toISOString()}`);
    }
    if (others.some(({ pid }) => pid === holder.pid)) return;
    this.#options.log.warn({ leader: holder.application }, "the leader is silent: its connection is ended");
    await endConnection(client, holder.pid, answerMs);
  }

  /** Begins an epoch, on a connection of its own: that may take a while, and the lease has to be renewed meanwhile. */
  async #begin(client: pg.Client): Promise<void> {
    const { connection, answerMs, log } = this.#options;
    this.#isBeginning = true;
    try {
      const epoch = randomUUID();
      const isNewLife = await withClient(connection, (other) => beginEpoch(other, this.#name, epoch, answerMs));
      if (isNewLife) {
        log.info({}, "the database begins a new life: change log and router data model start from empty");
      }
      if (this.#client !== client || this.#isClosed) return;
      log.info({}, "this controller leads: it does what has to be done once");
      this.#setEpoch(epoch);
      this.#setLed();
    } catch (error) {
      log.warn({ error: String(error) }, "the controller could not begin to lead; it tries again");
    } finally {
      this.#isBeginning = false;
    }
  }

  /** Gives up the lead. The process may get it again. */
  #resign(reason: string): void {
    this.#options.log.warn({ reason }, "this controller leads no more");
    this.#hasLock = false;
    this.#setEpoch(undefined);
    const client = this.#client;
    if (client === undefined) return;
    const text = `SELECT pg_advisory_unlock_all()`;
    ask(client, text, undefined, this.#options.answerMs).catch((error: unknown) => this.#lost(client, error));
  }

  #setEpoch(epoch: string | undefined): void {
    if (this.#epoch === epoch) return;
    this.#epoch = epoch;
    this.#leadershipChanged.emit();
  }

  #setLed(): void {
    if (this.#isLed) return;
    this.#isLed = true;
    this.#leadershipChanged.emit();
  }
}

function isReplaced(earlier: ReplicaMessage, later: ReplicaMessage): boolean {
  if (earlier.kind === "written") return later.kind === "written";
  return later.kind === "seen" && earlier.to === later.to;
}

/** Number of the server process that serves a connection. */
function pidOf(client: pg.Client): number {
  return (client as unknown as { processID?: number }).processID ?? 0;
}
