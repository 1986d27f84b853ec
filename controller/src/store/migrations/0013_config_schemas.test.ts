import { sql } from "kysely";
import { afterAll, beforeAll, expect, test } from "vitest";
import { seed } from "../../model/seeds.ts";
import { type TestStore, testStore } from "../testing/test-store.ts";
import { configSchemas } from "./0013_config_schemas.ts";

/** The schema of the older client type as networks got it before. */
const FORMER = {
  type: "object",
  properties: { hostname: { type: "string" }, port: { type: "integer", minimum: 0, maximum: 65535 } },
  required: ["hostname", "port"],
  additionalProperties: false,
};
const CHANGED = { type: "object", title: "changed by an administrator" };

let database: TestStore;
beforeAll(async () => {
  database = await testStore();
  await seed(database.store);
});
afterAll(() => database?.drop());

test("schemas of an earlier version are replaced, those that an administrator has changed are not", async () => {
  const { db, pool } = database.store;
  const schemas = async () =>
    Object.fromEntries(
      (await pool.query<{ name: string; schema: unknown }>("SELECT name, schema FROM config_type")).rows.map((row) => [
        row.name,
        row.schema,
      ]),
    );
  const made = await schemas();
  const put = (name: string, schema: object) =>
    sql`UPDATE config_type SET schema = ${JSON.stringify(schema)}::jsonb WHERE name = ${name}`.execute(db);
  await put("ziti-tunneler-client.v1", FORMER);
  await put("host.v1", CHANGED);
  const before = (await pool.query("SELECT max(seq) AS seq FROM change_log")).rows[0].seq;
  await db.transaction().execute((trx) => configSchemas.up(trx as never));
  expect(await schemas()).toEqual({ ...made, "host.v1": CHANGED });
  const { rows } = await pool.query("SELECT kind, key, op FROM change_log WHERE seq > $1", [before]);
  expect(rows).toEqual([{ kind: "config_type", key: "f2dd2df0-9c04-4b84-a91e-71437ac229f1", op: "update" }]);
});
