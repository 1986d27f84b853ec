import { randomUUID } from "node:crypto";
import { Listeners } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type pg from "pg";
import { beginEpoch } from "../postgres/epoch.ts";
import { heldBy } from "../postgres/holder-lock.ts";
import { ask, withClient } from "../postgres/store-client.ts";
import { endConnection, leaderLockHolder, REPLICA_PREFIX, type Renewal } from "./lease.ts";

export interface LeadershipOptions {
  readonly connection: pg.ClientConfig;
  /** How long the server may take to answer. */
  readonly answerMs: number;
  /** How the process names itself at the server. */
  readonly name: string;
  /** The connection that holds the lock does not answer. */
  readonly onSilent: (client: pg.Client, error: unknown) => void;
  readonly log: Logger;
}

/**
 * Makes one process on a database the leader: the one that holds the advisory lock, under an epoch that it began. The lock belongs to the connection over which the
 * process renews its lease. Source: docs/protocol/replicas.md, "The leader".
 */
export class Leadership {
  readonly #options: LeadershipOptions;
  readonly #changed = new Listeners();
  /** The connection that holds the lock. */
  #holding: pg.Client | undefined;
  #epoch: string | undefined;
  #isBeginning = false;
  #isLed = false;

  constructor(options: LeadershipOptions) {
    this.#options = options;
  }

  /** The epoch of this process as the leader. What writes under it is refused once another process leads. */
  get epoch(): string | undefined {
    return this.#epoch;
  }

  /** Does this process still have to try to get the lock? */
  get campaigns(): boolean {
    return this.#holding === undefined;
  }

  /** Has some process led, here or elsewhere, since the connection was made? */
  get isLed(): boolean {
    return this.#isLed;
  }

  /** Calls `listener` when this process may have become the leader, or is it no more. */
  onChange(listener: () => void): () => void {
    return this.#changed.add(listener);
  }

  /** Takes note of a renewal. @throws DatabaseHeldError when a controller works alone on the database */
  async renewed(client: pg.Client, { others, epoch, hasLock }: Renewal): Promise<void> {
    if (hasLock) this.#holding = client;
    if (this.#holding !== undefined) {
      if (this.#epoch === undefined) void this.#begin(client);
      else if (epoch !== this.#epoch) this.resign();
      return;
    }
    if (others.some(({ leads }) => leads)) return this.#setLed();
    const { answerMs, log } = this.#options;
    const holder = await leaderLockHolder(client, answerMs);
    if (holder === undefined) return;
    if (holder.application?.startsWith(REPLICA_PREFIX) !== true) throw heldBy(holder);
    // It has just got the lock.
    if (others.some(({ pid }) => pid === holder.pid)) return;
    log.warn({ leader: holder.application }, "the leader is silent: its connection is ended");
    await endConnection(client, holder.pid, answerMs);
  }

  /** Gives up the lead: another process leads, or this one ends. This process may get it again. */
  resign(): void {
    const client = this.#holding;
    this.lost();
    if (client === undefined) return;
    const { answerMs, onSilent, log } = this.#options;
    log.warn({}, "this controller leads no more");
    ask(client, "SELECT pg_advisory_unlock_all()", undefined, answerMs).catch((error) => onSilent(client, error));
  }

  /** The connection was lost, and the lock with it. */
  lost(): void {
    this.#holding = undefined;
    this.#isLed = false;
    this.#setEpoch(undefined);
  }

  /** Begins an epoch, on a connection of its own: that may take a while, and the lease has to be renewed meanwhile. */
  async #begin(client: pg.Client): Promise<void> {
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    const { connection, answerMs, name, log } = this.#options;
    try {
      const epoch = randomUUID();
      const isNewLife = await withClient(connection, (other) => beginEpoch(other, name, epoch, answerMs));
      if (isNewLife) {
        log.info({}, "the database begins a new life: change log and router data model start from empty");
      }
      if (this.#holding !== client) return;
      log.info({}, "this controller leads: it does what has to be done once");
      this.#setEpoch(epoch);
      this.#setLed();
    } catch (error) {
      log.warn({ error: String(error) }, "the controller could not begin to lead; it tries again");
    } finally {
      this.#isBeginning = false;
    }
  }

  #setEpoch(epoch: string | undefined): void {
    if (this.#epoch === epoch) return;
    this.#epoch = epoch;
    this.#changed.emit();
  }

  #setLed(): void {
    if (this.#isLed) return;
    this.#isLed = true;
    this.#changed.emit();
  }
}
