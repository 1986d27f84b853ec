import type { Selectable } from "kysely";
import type { AuthPolicyTable } from "../store/schema.ts";
import type { Db } from "./context.ts";

export type AuthPolicyRow = Selectable<AuthPolicyTable>;

/** How identities of a policy may authenticate. */
export async function findAuthPolicy(db: Db, id: string): Promise<AuthPolicyRow | undefined> {
  return db.selectFrom("auth_policy").selectAll().where("id", "=", id).executeTakeFirst();
}
