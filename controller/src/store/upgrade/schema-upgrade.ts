import { pause } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { Kysely, PostgresDialect } from "kysely";
import type pg from "pg";
import { migrations as allMigrations } from "../migrations/all.ts";
import { DatabaseHeldError } from "../postgres/holder-lock.ts";
import { longWorkPool } from "../postgres/long-work.ts";
import { type Migrated, type Migrator, migrate, nameOf } from "./migrate.ts";
import { levelOf, type Migration } from "./migration.ts";
import { SchemaTooNewError } from "./schema-state.ts";

/** What a program knows of the schema. Tests play other versions with it. */
export interface ProgramSchema {
  readonly migrations?: readonly Migration[];
  readonly quietMs?: number;
  /** How often a controller tries what it had to postpone; default 15 seconds. */
  readonly againMs?: number;
}

export interface SchemaUpgradeOptions {
  readonly connection: pg.ClientConfig;
  readonly answerMs: number;
  readonly as: Migrator;
  readonly program?: ProgramSchema | undefined;
  readonly log: Logger;
}

/** A controller that works alone and has just been killed holds its lock for another moment. */
const PATIENCE_MS = 3_000;
const AGAIN_MS = 15_000;

/** Keeps the schema of a database as the program needs it: at the start, and later what had to wait for older controllers. */
export class SchemaUpgrade {
  readonly #options: SchemaUpgradeOptions;
  readonly #migrations: readonly Migration[];
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isClosed = false;
  #hasPostponed = false;
  #told = "";

  private constructor(options: SchemaUpgradeOptions) {
    this.#options = options;
    this.#migrations = options.program?.migrations ?? allMigrations;
  }

  /** @throws MigrationError, SchemaTooNewError, DatabaseHeldError */
  static async run(options: SchemaUpgradeOptions): Promise<SchemaUpgrade> {
    const upgrade = new SchemaUpgrade(options);
    const until = performance.now() + PATIENCE_MS;
    for (;;) {
      try {
        upgrade.#note(await upgrade.#migrate(false));
        return upgrade;
      } catch (error) {
        const isPassing = error instanceof DatabaseHeldError && !(error instanceof SchemaTooNewError);
        if (!isPassing || performance.now() > until) throw error;
        await pause(100);
      }
    }
  }

  get level(): number {
    return levelOf(this.#migrations);
  }

  /** Goes on with what was postponed whenever `isDue` says so. */
  follow(isDue: () => boolean): void {
    if (!this.#hasPostponed || this.#isClosed) return;
    this.#timer = setTimeout(() => {
      this.#running = (isDue() ? this.#again() : Promise.resolve()).finally(() => this.follow(isDue));
    }, this.#options.program?.againMs ?? AGAIN_MS).unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    await this.#running;
  }

  async #again(): Promise<void> {
    try {
      this.#note(await this.#migrate(true));
    } catch (error) {
      this.#options.log.warn({ error: String(error) }, "postponed schema changes could not be made; trying again");
    }
  }

  #note({ applied, postponed, older }: Migrated): void {
    const { log } = this.#options;
    if (applied.length > 0) log.info({ migrations: applied }, "database schema brought up to date");
    const controllers = older.map(nameOf);
    this.#hasPostponed = postponed.length > 0;
    const told = older.length === 0 ? "" : JSON.stringify({ postponed, controllers });
    if (told !== this.#told && told !== "") {
      log.warn(
        { migrations: postponed, controllers },
        "schema changes wait until older controllers have been upgraded or stopped",
      );
    }
    this.#told = told;
  }

  /** On a connection of its own: those that serve requests belong to an epoch, which needs the schema. */
  async #migrate(isImpatient: boolean): Promise<Migrated> {
    const { connection, answerMs, as, program, log } = this.#options;
    const pool = longWorkPool(connection, "sallyport migrations", { answerMs, log });
    const db = new Kysely<never>({ dialect: new PostgresDialect({ pool }) });
    try {
      const quiet = program?.quietMs === undefined ? {} : { quietMs: program.quietMs };
      return await migrate(db, this.#migrations, { as, ...quiet, isImpatient, log });
    } finally {
      await db.destroy();
    }
  }
}
