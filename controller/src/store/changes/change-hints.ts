import { Backoff } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import type pg from "pg";
import { ask, CONNECTION_LIMITS, StoreClient } from "../postgres/store-client.ts";
import { CHANNEL } from "../replicas/messages.ts";

const COALESCE_MS = 25;
const FIRST_PAUSE_MS = 100;
const MAX_PAUSE_MS = 5_000;

export interface ChangeHintsOptions {
  readonly connection: pg.ClientConfig;
  /** How long the server may take to answer. */
  readonly answerMs: number;
  readonly onHint: () => void;
  readonly log: Logger;
}

/**
 * Hints between processes on one database that the change log has grown: LISTEN and NOTIFY on a connection of their own, at most one
 * NOTIFY in 25 ms, never inside a write (a NOTIFY makes commits wait for each other). A hint may be lost; readers look regularly anyway.
 */
export class ChangeHints {
  readonly #options: ChangeHintsOptions;
  #client: pg.Client | undefined;
  #timer: NodeJS.Timeout | undefined;
  #retry: NodeJS.Timeout | undefined;
  readonly #backoff = new Backoff({ firstMs: FIRST_PAUSE_MS, maxMs: MAX_PAUSE_MS });
  #processId = 0;
  #closed = false;

  constructor(options: ChangeHintsOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { connection, answerMs } = this.#options;
    const client = new StoreClient({
      ...connection,
      ...CONNECTION_LIMITS,
      connectionTimeoutMillis: answerMs,
      application_name: "sallyport change hints",
    });
    client.on("error", (error) => this.#lost(client, error));
    client.on("end", () => this.#lost(client, undefined));
    client.on("notification", (hint) => {
      if (hint.processId !== this.#processId) this.#options.onHint();
    });
    this.#client = client;
    try {
      await client.connect();
      const [row] = await ask<{ pid: number }>(client, "SELECT pg_backend_pid() AS pid", [], answerMs);
      this.#processId = row?.pid ?? 0;
      await ask(client, `LISTEN ${CHANNEL}`, undefined, answerMs);
      this.#backoff.reset();
    } catch (error) {
      this.#lost(client, error);
    }
  }

  /** Tells the other processes, within 25 ms. */
  written(): void {
    if (this.#closed) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      const client = this.#client;
      if (client === undefined) return;
      // When the connection does not take a hint, a new one replaces it: hints do not pile up.
      ask(client, `NOTIFY ${CHANNEL}`, undefined, this.#options.answerMs).catch((error) => this.#lost(client, error));
    }, COALESCE_MS).unref();
  }

  /** A hint that is still due is given first: a command ends as soon as it has written. */
  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    const client = this.#client;
    this.#client = undefined;
    const isDue = this.#timer !== undefined;
    clearTimeout(this.#timer);
    if (isDue && client !== undefined) {
      await ask(client, `NOTIFY ${CHANNEL}`, undefined, this.#options.answerMs).catch(() => undefined);
    }
    await client?.end().catch(() => undefined);
  }

  #lost(client: pg.Client, error: unknown): void {
    if (this.#closed || this.#client !== client) return;
    this.#client = undefined;
    // Only a hint: without it, readers look every second. The code that needs the database reports an outage.
    this.#options.log.debug(
      { error: String(error ?? "connection ended") },
      "the connection for change hints was lost; connecting again",
    );
    client.end().catch(() => undefined);
    this.#retry = setTimeout(() => {
      void this.start().then(() => this.#options.onHint());
    }, this.#backoff.next()).unref();
  }
}
