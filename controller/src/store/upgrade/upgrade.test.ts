import { randomBytes } from "node:crypto";
import { silentLogger } from "@sallyport/wire";
import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { expect, test } from "vitest";
import { openStore } from "../database.ts";
import { migrations } from "../migrations/all.ts";
import { EPOCH_OVER } from "../postgres/epoch.ts";
import { testDatabase } from "../testing/test-store.ts";
import { migrate } from "./migrate.ts";

const ROWS = 10_000;

test("a database of the version before epochs is upgraded, beside a table of another role", async () => {
  const database = await testDatabase();
  // The user of a server that is reached by URL may make no roles.
  const admin = new pg.Client({ ...database.connection, ...database.connection.administrator });
  await admin.connect();
  const role = `upgrade_${randomBytes(4).toString("hex")}`;
  try {
    await admin.query(`CREATE ROLE ${role}; GRANT ${role} TO ${database.connection.user}; DROP SCHEMA public CASCADE; CREATE SCHEMA public;
      CREATE EXTENSION pg_trgm; GRANT ALL ON SCHEMA public TO ${role}; CREATE TABLE spatial_ref_sys (srid integer)`);
    const connection = { ...database.connection, options: `-c role=${role}` };
    const pool = new pg.Pool({ ...connection, max: 1 });
    const former = new Kysely<never>({ dialect: new PostgresDialect({ pool }) });
    await migrate(
      former,
      migrations.filter(({ id }) => id < "0014"),
    );
    await pool.query(`
      INSERT INTO auth_policy (id, name, cert_allowed, cert_allow_expired, updb_allowed, ext_jwt_allowed)
        VALUES ('default', 'Default', true, true, true, true);
      INSERT INTO identity (id, name, type_id, is_admin, is_default_admin)
        VALUES ('a', 'Default Admin', 'Default', false, true);
      INSERT INTO identity (id, name, type_id) SELECT 'i' || n, 'i' || n, 'Default' FROM generate_series(1, ${ROWS}) AS n;
      INSERT INTO api_session (id, token, identity_id, authenticator_id, ip_address)
        SELECT 's' || id, 't' || id, id, 'x', '::1' FROM identity`);
    await former.destroy();

    const store = await openStore({ connection, hold: false, log: silentLogger });
    const { rows } = await store.pool.query(`SELECT count(*)::int AS sessions,
      array_agg(DISTINCT kind) AS kinds, bool_and(token = 't' || identity_id) AS "goOn", (SELECT is_admin FROM identity WHERE id = 'a') AS "isAdmin" FROM api_session`);
    expect(rows).toEqual([{ sessions: ROWS, kinds: ["legacy"], goOn: true, isAdmin: true }]);
    await store.close();

    await admin.query("SELECT set_config('sallyport.epoch', 'over', false)");
    const write = admin.query("UPDATE identity SET updated_at = now() WHERE id = 'a'");
    await expect(write).rejects.toMatchObject({ code: EPOCH_OVER });
    await admin.query("INSERT INTO spatial_ref_sys VALUES (1)");
  } finally {
    await admin.query(`DROP OWNED BY ${role} CASCADE; DROP ROLE ${role}`);
    await admin.end();
    await database.drop();
  }
});
