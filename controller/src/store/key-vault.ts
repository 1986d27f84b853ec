import { type Kysely, sql } from "kysely";
import type { EngineTables } from "./engine-tables.ts";
import type { Secrets } from "./secrets.ts";

/** Named values that lie sealed in the store: the network's private keys, for example. The name is bound into each box. */
export class KeyVault {
  readonly #db: Kysely<EngineTables>;
  readonly #secrets: Secrets;

  /** @param db a store's `db`, or a transaction. */
  constructor(db: Pick<Kysely<EngineTables>, "getExecutor">, secrets: Secrets) {
    this.#db = db as Kysely<EngineTables>;
    this.#secrets = secrets;
  }

  /** The value as it was saved (JSON), or undefined. @throws SecretsError when the key is wrong or the box was changed. */
  async load<T>(name: string): Promise<T | undefined> {
    const { rows } = await sql<{ box: Buffer }>`SELECT box FROM secret WHERE name = ${name}`.execute(this.#db);
    const box = rows[0]?.box;
    return box === undefined ? undefined : (JSON.parse(this.#secrets.decryptText(box, `secret:${name}`)) as T);
  }

  /** Saves a value, in place of an older one. */
  async save(name: string, value: unknown): Promise<void> {
    const box = this.#secrets.encrypt(JSON.stringify(value), `secret:${name}`);
    await sql`INSERT INTO secret (name, box) VALUES (${name}, ${box})
      ON CONFLICT (name) DO UPDATE SET box = excluded.box, updated_at = now()`.execute(this.#db);
  }
}
