import type { Logger } from "@sallyport/wire";
import pg from "pg";
import { CONNECTION_LIMITS } from "./postgres/connection-limits.ts";

const CHANNEL = "sallyport_change";
const COALESCE_MS = 25;
const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Hints between processes on one database that the change log has grown: LISTEN and NOTIFY on a connection of their own, at most one
 * NOTIFY in 25 ms, never inside a write (a NOTIFY makes commits wait for each other). A hint may be lost; readers look regularly anyway.
 */
export class ChangeHints {
  readonly #config: pg.ClientConfig;
  readonly #onHint: () => void;
  readonly #log: Logger;
  #client: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  #pause = FIRST_PAUSE_MS;
  #processId = 0;
  #closed = false;

  constructor(config: pg.ClientConfig, onHint: () => void, log: Logger) {
    this.#config = config;
    this.#onHint = onHint;
    this.#log = log;
  }

  async start(): Promise<void> {
    const client = new pg.Client({ ...this.#config, ...CONNECTION_LIMITS, application_name: "sallyport change hints" });
    client.on("error", (error) => this.#lost(client, error));
    client.on("end", () => this.#lost(client, undefined));
    client.on("notification", (hint) => {
      if (hint.processId !== this.#processId) this.#onHint();
    });
    this.#client = client;
    try {
      await client.connect();
      const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
      this.#processId = rows[0]?.pid ?? 0;
      await client.query(`LISTEN ${CHANNEL}`);
      this.#pause = FIRST_PAUSE_MS;
    } catch (error) {
      this.#lost(client, error);
    }
  }

  /** Tells the other processes, within 25 ms. */
  notify(): void {
    if (this.#closed) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#client?.query(`NOTIFY ${CHANNEL}`).catch((error) => {
        this.#log.debug({ error: String(error) }, "a hint about changes was not sent");
      });
    }, COALESCE_MS).unref();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#timer);
    clearTimeout(this.#retry);
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => undefined);
  }

  #lost(client: pg.Client, error: unknown): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    // Only a hint: without it, readers look every second. An outage is reported by whoever needs the database.
    this.#log.debug(
      { error: String(error ?? "connection ended") },
      "the connection for change hints was lost; connecting again",
    );
    client.end().catch(() => undefined);
    this.#retry = setTimeout(() => {
      void this.start().then(() => this.#onHint());
    }, this.#pause).unref();
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
  }
}
