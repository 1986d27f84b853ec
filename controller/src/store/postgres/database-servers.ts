import { setTimeout as delay } from "node:timers/promises";
import { parseDatabaseUrl, type ServerPlace } from "@sallyport/controller-config";
import { formatHostPort, type Logger } from "@sallyport/wire";
import pg from "pg";
import { ask, type Servers, StoreClient, type StoreClientConfig } from "./store-client.ts";
import { reasonOf } from "./store-error.ts";

/** How long a server may take to say whether it takes writes, when all are asked. */
const LOOK_MS = 2_000;
/** How long the others may take once one has said so: of two primaries the newer one is wanted. */
const OTHERS_MS = 500;
/** SQLSTATE of a server that takes no writes: read_only_sql_transaction. */
export const TAKES_NO_WRITES = "25006";
/** SQLSTATEs of a server that is not there, starts, or stops, although something has answered. */
const IS_AWAY = /^(08|57P|25006)/;

/**
 * The number of the process that serves the connection, whether the server takes writes, and the timeline of its write-ahead log, which is higher with each
 * promotion. A standby does not name its timeline this way.
 */
const QUESTION = `SELECT pg_backend_pid() AS process, pg_is_in_recovery() AS "isStandby",
  current_setting('transaction_read_only') = 'on' AS "isReadOnly",
  CASE WHEN pg_is_in_recovery() THEN '' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline`;

interface Answer {
  readonly process: number;
  readonly isStandby: boolean;
  readonly isReadOnly: boolean;
  /** Eight hexadecimal digits. */
  readonly timeline: string;
}

/** No server takes writes, or not this one. Counts as an outage of the database. */
export class NoPrimaryError extends Error {
  override name = "NoPrimaryError";
  readonly code = TAKES_NO_WRITES;
}

/**
 * The servers of a database that its URL names, of which one at a time takes writes. All connections of a process go to that one: the server that took
 * writes last, as long as it does; otherwise all are asked at once. A server that takes none is refused, and so is a former primary that does not know yet
 * that it is one: its timeline is lower than the highest on which this process has worked. When another server takes over, connections to the former one
 * are ended. Source: docs/controller/database.md, "A database that fails over".
 */
export class DatabaseServers implements Servers {
  readonly #places: readonly ServerPlace[];
  readonly #connectionString: string;
  readonly #log: Logger | undefined;
  readonly #clients = new Set<StoreClient>();
  #current: ServerPlace | undefined;
  /** The last that was the current one. */
  #last: ServerPlace | undefined;
  #timeline = "";
  /** Why no server takes writes, as it was logged last. */
  #told: string | undefined;
  #looking: Promise<ServerPlace> | undefined;

  /** @throws DatabaseUrlError */
  constructor(url: string, log?: Logger) {
    const { connectionString, servers } = parseDatabaseUrl(url);
    this.#connectionString = connectionString;
    this.#places = servers;
    this.#log = log;
  }

  /** For connections to the server that takes writes. */
  get connection(): StoreClientConfig {
    return { connectionString: this.#connectionString, servers: this };
  }

  /** As people read it, for example `db1:5432, db2:5432`; empty if there is one server. */
  get names(): string {
    return this.#places.map(nameOf).join(", ");
  }

  /**
   * The server to connect to; undefined if there is only one. Whether it takes writes has to be asked on each connection ({@link admit}).
   * @throws NoPrimaryError
   */
  async choose(): Promise<ServerPlace | undefined> {
    if (this.#places.length === 0) return undefined;
    if (this.#current !== undefined) return this.#current;
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  /** Takes a new connection, if its server takes writes. @throws NoPrimaryError */
  async admit(client: StoreClient, timeoutMs: number): Promise<Answer> {
    const answer = await this.#ask(client, timeoutMs);
    this.#clients.add(client);
    client.once("end", () => this.#clients.delete(client));
    this.#take(client.place, answer);
    return answer;
  }

  /** A connection could not be made. A server that answers, and refuses for a reason of its own such as too many connections, stays the one. */
  failed(place: ServerPlace, error: unknown): void {
    const isThere = error instanceof pg.DatabaseError && !IS_AWAY.test(error.code ?? "");
    if (this.#isCurrent(place) && !isThere) this.#current = undefined;
  }

  /** A server does not answer on a connection that is open. Others may be asked; the connections stay until another one takes over. */
  silent(place: ServerPlace): void {
    if (this.#isCurrent(place)) this.#current = undefined;
  }

  /** A server has refused a write. */
  demoted(place: ServerPlace): void {
    if (this.#isCurrent(place)) this.#current = undefined;
    this.#dropClients((other) => isSame(other, place), `${nameOf(place)} takes no writes any more`);
  }

  #isCurrent(place: ServerPlace): boolean {
    return this.#current !== undefined && isSame(this.#current, place);
  }

  async #look(): Promise<ServerPlace> {
    const primaries: { place: ServerPlace; answer: Answer }[] = [];
    const reasons = new Map<ServerPlace, string>();
    const found = Promise.withResolvers<void>();
    const asked = this.#places.map(async (place) => {
      try {
        primaries.push({ place, answer: await this.#askAt(place) });
        found.resolve();
      } catch (error) {
        reasons.set(place, error instanceof NoPrimaryError ? error.message : `${nameOf(place)}: ${reasonOf(error)}`);
      }
    });
    await Promise.race([Promise.all(asked), found.promise.then(() => delay(OTHERS_MS, undefined, { ref: false }))]);
    const [newest, ...others] = primaries.toSorted((a, b) => (a.answer.timeline < b.answer.timeline ? 1 : -1));
    if (newest === undefined) {
      const each = this.#places.map((place) => reasons.get(place));
      const message = `no server of the database takes writes (${each.join("; ")})`;
      if (message !== this.#told) this.#log?.warn({}, message);
      this.#told = message;
      throw new NoPrimaryError(message);
    }
    if (others.length > 0) {
      const former = others.map(({ place }) => nameOf(place));
      this.#log?.error(
        { primary: nameOf(newest.place), former },
        "several servers of the database take writes: the one that was promoted last is used; stop the others, their data is not the same any more",
      );
    }
    this.#take(newest.place, newest.answer);
    return newest.place;
  }

  async #askAt(place: ServerPlace): Promise<Answer> {
    const client = new StoreClient({
      connectionString: this.#connectionString,
      at: place,
      connectionTimeoutMillis: LOOK_MS,
      application_name: "sallyport server choice",
    });
    try {
      await client.connect();
      return await this.#ask(client, LOOK_MS);
    } finally {
      client.end().catch(() => undefined);
    }
  }

  async #ask(client: StoreClient, timeoutMs: number): Promise<Answer> {
    const [answer] = await ask<Answer & pg.QueryResultRow>(client, QUESTION, undefined, timeoutMs);
    const name = nameOf(client.place);
    if (answer === undefined || answer.isStandby) throw new NoPrimaryError(`${name} is a standby and takes no writes`);
    if (answer.isReadOnly) throw new NoPrimaryError(`${name} is read-only (default_transaction_read_only)`);
    if (this.#places.length > 0 && answer.timeline < this.#timeline) {
      throw new NoPrimaryError(
        `${name} is a former primary: it is on timeline ${answer.timeline}, and the controller has worked on ${this.#timeline}; if this server is the right one, restart the controller`,
      );
    }
    return answer;
  }

  #take(place: ServerPlace, { timeline }: Answer): void {
    if (timeline > this.#timeline) this.#timeline = timeline;
    if (this.#places.length === 0 || this.#isCurrent(place)) return;
    this.#current = place;
    this.#told = undefined;
    if (this.#last !== undefined && isSame(this.#last, place)) return;
    this.#last = place;
    this.#log?.info({ server: nameOf(place), timeline }, "the database is used at this server, which takes writes");
    this.#dropClients((other) => !isSame(other, place), `the database has moved to ${nameOf(place)}`);
  }

  #dropClients(isLeft: (place: ServerPlace) => boolean, reason: string): void {
    for (const client of this.#clients) if (isLeft(client.place)) client.drop(new NoPrimaryError(reason));
  }
}

function isSame(one: ServerPlace, other: ServerPlace): boolean {
  return one.host === other.host && one.port === other.port;
}

function nameOf({ host, port }: ServerPlace): string {
  return host.startsWith("/") ? `${host}, port ${port}` : formatHostPort({ host, port });
}
