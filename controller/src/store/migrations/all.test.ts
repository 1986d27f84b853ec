import { silentLogger } from "@sallyport/wire";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { expect, it } from "vitest";
import { openStore } from "../database.ts";
import { RELEASED_LEVELS } from "../testing/released-levels.ts";
import { testDatabase } from "../testing/test-store.ts";
import { migrate } from "../upgrade/migrate.ts";
import { levelOf, type Migration } from "../upgrade/migration.ts";
import { migrations } from "./all.ts";

const LAST_RELEASED = RELEASED_LEVELS.at(-1) ?? 0;
const contractions = migrations.filter((migration) => migration.kind === "contracts");

it("every migration says what it does to older programs", () => {
  for (const { id, kind } of migrations) {
    expect(id).toMatch(/^\d{4}_[a-z0-9_]+$/);
    expect(["expands", "contracts"], id).toContain(kind);
  }
  for (const { id, worksFrom } of contractions) {
    expect(Number.isSafeInteger(worksFrom), id).toBe(true);
    expect(worksFrom, `${id}: a level of its own program or an older one`).toBeLessThanOrEqual(levelOf(migrations));
  }
});

it("no migration takes away what the last release needs: it works on the schema, also after a contraction", () => {
  for (const { id, worksFrom } of contractions) expect(worksFrom, id).toBeLessThanOrEqual(LAST_RELEASED);
});

it("no migration of a release is gone", () => {
  const levels = migrations.map(({ id }) => levelOf([{ id }]));
  for (const level of RELEASED_LEVELS) expect(levels).toContain(level);
});

it("contractions may come late: the schema is the same as in order", { timeout: 120_000 }, async () => {
  const inOrder = await schemaAfter(migrations);
  const late = await schemaAfter(
    migrations.filter(({ kind }) => kind === "expands"),
    migrations,
  );
  expect(late).toEqual(inOrder);
});

/** Every column, constraint, index and trigger of the schema after these calls. */
async function schemaAfter(...calls: (readonly Migration[])[]): Promise<string[]> {
  const database = await testDatabase();
  const pool = new pg.Pool({ ...database.connection, ...database.connection.administrator, max: 1 });
  pool.on("error", () => undefined);
  try {
    await pool.query(`DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE EXTENSION pg_trgm;
      GRANT ALL ON SCHEMA public TO ${database.connection.user}; SET ROLE ${database.connection.user}`);
    const db = new Kysely<never>({ dialect: new PostgresDialect({ pool }) });
    for (const call of calls) await migrate(db, call);
    await (await openStore({ connection: database.connection, hold: false, log: silentLogger })).close();
    const { rows } = await pool.query<{ part: string }>(`
      SELECT format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default) AS part
        FROM information_schema.columns WHERE table_schema = 'public'
      UNION ALL SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
      UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
      UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal ORDER BY part`);
    return rows.map(({ part }) => part);
  } finally {
    await pool.end();
    await database.drop();
  }
}
