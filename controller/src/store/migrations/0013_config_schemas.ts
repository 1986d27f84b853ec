import { sql } from "kysely";
import { loggedWrite } from "../changes/logged-write.ts";
import { hostV1, hostV2, interceptV1, tunnelerClientV1, tunnelerServerV1 } from "../config-schemas.ts";
import type { Migration } from "../upgrade/migration.ts";

/** Per config type the digest of the schema that it was made with before, and the present one. */
const SCHEMAS = [
  { id: "g7cIWbcGg", former: "47740f232ecd3dd45e1fc9710e22333e", schema: interceptV1 },
  { id: "NH5p4FpGR", former: "3f5be275322c68cc08df0e1c9c2bf1e3", schema: hostV1 },
  { id: "host.v2", former: "6aa1ec72081a854da57274a563b0d96e", schema: hostV2 },
  {
    id: "f2dd2df0-9c04-4b84-a91e-71437ac229f1",
    former: "d76fde8d234a2a7dc24c4bf8471ac801",
    schema: tunnelerClientV1,
  },
  {
    id: "cea49285-6c07-42cf-9f52-09a9b115c783",
    former: "2468a60d560da1241da76f7dbf399c42",
    schema: tunnelerServerV1,
  },
];

/** The config types that every network has get schemas that consoles can build forms from. One that an administrator has changed stays. */
export const configSchemas: Migration = {
  id: "0013_config_schemas",
  kind: "expands",
  async up(db) {
    await loggedWrite(
      db,
      sql`WITH changed AS (
        UPDATE config_type t SET schema = n.schema, updated_at = now()
        FROM jsonb_to_recordset(${JSON.stringify(SCHEMAS)}::jsonb) AS n (id text, former text, schema jsonb)
        WHERE t.id = n.id AND md5(t.schema::text) = n.former RETURNING t.id)`,
      { changes: [{ kind: "config_type", op: "update", of: "changed" }] },
    );
  },
};
