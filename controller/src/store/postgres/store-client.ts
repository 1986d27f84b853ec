import type { Socket } from "node:net";
import type { ServerPlace } from "@sallyport/controller-config";
import pg from "pg";
import { isSilence, silence } from "./store-error.ts";

/** How long a server may take to end a connection. */
const END_MS = 2_000;

/** The servers of a database, as a client needs them; docs at their implementation, `DatabaseServers`. */
export interface Servers {
  readonly names: string;
  choose(): Promise<ServerPlace | undefined>;
  admit(client: StoreClient, timeoutMs: number): Promise<{ readonly process: number }>;
  failed(place: ServerPlace, error: unknown): void;
  silent(place: ServerPlace): void;
  demoted(place: ServerPlace): void;
}

/** How a {@link StoreClient} connects. */
export interface StoreClientConfig extends pg.ClientConfig {
  /** The servers of the database: the connection goes to the one that takes writes, and only there. */
  readonly servers?: Servers | undefined;
  /** The server to connect to, whatever it takes. */
  readonly at?: ServerPlace | undefined;
}

/** A client that goes to the server that takes writes, and is ended within two seconds: a server that has gone silent does not close its side. */
export class StoreClient extends pg.Client {
  readonly #servers: Servers | undefined;
  readonly #at: ServerPlace | undefined;
  readonly #timeoutMs: number | undefined;
  #serverProcess: number | undefined;

  constructor(config: StoreClientConfig = {}) {
    super(config);
    this.#servers = config.servers;
    this.#at = config.at;
    this.#timeoutMs = config.connectionTimeoutMillis || undefined;
    // The code that uses the client learns of a lost connection from a query; until then, the loss must not end the process.
    this.on("error", () => undefined);
  }

  /** Where it is connected, or will be. */
  get place(): ServerPlace {
    return { host: this.host, port: this.port };
  }

  /** Number of the server process that serves the connection. A pooler between this program and the server says another one when the connection begins. */
  get serverProcess(): number {
    return this.#serverProcess ?? (this as unknown as { processID: number | null }).processID ?? 0;
  }

  override connect(): Promise<this>;
  override connect(callback: ((error: Error) => void) | ((error: null, client: pg.Client) => void)): void;
  override connect(callback?: (error: never, client: this) => void): Promise<this> | undefined {
    const opening = this.#open();
    if (callback === undefined) return opening;
    opening.then(
      () => callback(null as never, this),
      (error) => callback(error as never, this),
    );
    return undefined;
  }

  async #open(): Promise<this> {
    const servers = this.#servers;
    const place = this.#at ?? (await servers?.choose());
    if (place !== undefined) {
      Object.assign(this, place);
      // A file with passwords is read by these.
      Object.assign((this as unknown as { connectionParameters: object }).connectionParameters, place);
    }
    // Given up meanwhile: the library would connect all the same.
    if (socketOf(this).destroyed) throw silence();
    if (servers === undefined || this.#at !== undefined) {
      await super.connect();
      return this;
    }
    try {
      await super.connect();
      const { process } = await servers.admit(this, Math.min(this.#timeoutMs ?? ANSWER_MS, ANSWER_MS));
      this.#serverProcess = process;
      return this;
    } catch (error) {
      servers.failed(this.place, error);
      this.end().catch(() => undefined);
      throw error;
    }
  }

  /** The server has refused a write because it takes none: neither this connection nor others to the server are used again. */
  refusedWrite(): void {
    if (this.#servers === undefined) this.drop(new Error("Connection terminated: the server takes no writes"));
    else this.#servers.demoted(this.place);
  }

  /** A query got no answer in time: new connections look at the other servers, too. */
  fellSilent(): void {
    this.#servers?.silent(this.place);
  }

  drop(reason: Error): void {
    socketOf(this).destroy(reason);
  }

  override end(): Promise<void>;
  override end(callback: (error: Error) => void): void;
  override end(callback?: (error: Error) => void): Promise<void> | undefined {
    // Not earlier: TLS puts another socket in its place.
    const timer = setTimeout(() => socketOf(this).destroy(), END_MS).unref();
    this.once("end", () => clearTimeout(timer));
    if (callback === undefined) return super.end();
    super.end(callback);
    return undefined;
  }
}

/** The socket of a client, which the library's types do not show. */
export function socketOf(client: pg.ClientBase): Socket {
  return (client as unknown as { connection: { stream: Socket } }).connection.stream;
}

/** Does a query run on the client? The library's types do not show that, either. */
export function hasQuery(client: pg.ClientBase): boolean {
  return Boolean((client as unknown as { _activeQuery: unknown })._activeQuery);
}

/**
 * The rows of one query. Fails when the server does not answer within `answerMs`, because a connection does not report that its server has vanished. The
 * connection is unusable then.
 */
export async function ask<Row extends pg.QueryResultRow>(
  client: pg.ClientBase,
  text: string,
  values: unknown[] | undefined,
  answerMs: number,
): Promise<Row[]> {
  // The library's types know `query_timeout` of whole clients only.
  const query = { text, values, query_timeout: answerMs } as pg.QueryConfig;
  try {
    const { rows } = await client.query<Row>(query);
    return rows;
  } catch (error) {
    if (isSilence(error) && client instanceof StoreClient) client.fellSilent();
    throw error;
  }
}

/** For every lasting connection to PostgreSQL: no wait is without end, neither for a free or new connection nor for a server that has silently gone. */
export const CONNECTION_LIMITS = {
  connectionTimeoutMillis: 10_000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
} as const;

/** How long a request waits for a free connection: shorter than the time that it has. */
export const POOL_WAIT_MS = 5_000;

/** How long the server may take to answer a short query. */
export const ANSWER_MS = 5_000;

/**
 * How many times {@link ANSWER_MS} a statement of a request waits for its answer: longer than the server works on it ({@link REQUEST_SETTINGS}). Then the
 * server is taken for silent, and the connection ends.
 */
export const STATEMENT_ANSWERS = 3;

/** Allows the statements of one transaction five minutes each. */
export const LONG_STATEMENTS = "SET LOCAL statement_timeout = '5min'";

/** How long such a statement waits for its answer. */
export const LONG_ANSWER_MS = 320_000;

/**
 * Settings of the connections that serve requests. No statement outlasts its request, no wait for a lock is longer, and a forgotten transaction ends after a
 * minute.
 */
const REQUEST_SETTINGS =
  "SET statement_timeout = '10s'; SET lock_timeout = '9s'; SET idle_in_transaction_session_timeout = '60s'";

/** Gives a new connection the settings of those that serve requests. */
export async function setForRequests(client: pg.ClientBase, answerMs: number): Promise<void> {
  await ask(client, REQUEST_SETTINGS, undefined, answerMs);
}

/** Runs `work` on a connection of its own, which is ended afterwards. Of {@link CONNECTION_LIMITS}, `config` can replace the time to connect only. */
export async function withClient<T>(config: pg.ClientConfig, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const { connectionTimeoutMillis = CONNECTION_LIMITS.connectionTimeoutMillis } = config;
  const client = new StoreClient({ ...config, ...CONNECTION_LIMITS, connectionTimeoutMillis });
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
