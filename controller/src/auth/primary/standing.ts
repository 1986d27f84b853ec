import { type RawBuilder, sql } from "kysely";
import type { Db } from "../../model/context.ts";
import { isDisabled } from "../../model/identity/identities.ts";
import { type Proof, refused } from "./proof.ts";

interface Standing {
  readonly is_admin: boolean;
  readonly disabled_at: Date | null;
  readonly disabled_until: Date | null;
}

/**
 * Looks once more, in the transaction that makes the session, whether identity and credential are what they were when they were proved: a password takes its time
 * to check. The rows stay locked, so that whoever withdraws one of them from now on finds the session, and ends it.
 *
 * @throws ApiError 401
 */
export async function requireStanding(trx: Db, proof: Proof, at: Date): Promise<void> {
  const { principal, caId } = proof;
  // Before the authenticator, as whoever deletes an authority does.
  if (caId !== undefined)
    await requireRow(trx, sql`SELECT id FROM ca WHERE id = ${caId} AND is_auth_enabled FOR KEY SHARE`);
  const credential = credentialOf(proof);
  const row = await requireRow<Standing>(
    trx,
    sql`SELECT i.is_admin, i.disabled_at, i.disabled_until FROM identity i ${credential?.join ?? sql``}
      WHERE i.id = ${principal.identity.id} FOR KEY SHARE OF ${credential?.locked ?? sql`i`}`,
  );
  if (isDisabled(row, at)) throw refused(`identity ${principal.identity.id} was disabled while it logged in`);
  if (proof.isPassedOn === true && row.is_admin) {
    throw refused(`identity ${principal.identity.id} became an administrator while a router vouched for it`);
  }
}

async function requireRow<T>(trx: Db, query: RawBuilder<unknown>): Promise<T> {
  const { rows } = await (query as RawBuilder<T>).execute(trx);
  const [row] = rows;
  if (row === undefined) throw refused("the credential was withdrawn while it was checked");
  return row;
}

/** How the credential's row joins the identity `i`; undefined for the claim of an authority, which has none. */
function credentialOf({ principal, authenticatorId, signerId, isClaim }: Proof) {
  if (isClaim) return undefined;
  if (signerId !== undefined) {
    return { join: sql`JOIN ext_jwt_signer s ON s.id = ${signerId} AND s.enabled`, locked: sql`i, s` };
  }
  const { id } = principal.identity;
  return { join: sql`JOIN authenticator a ON a.id = ${authenticatorId} AND a.identity_id = ${id}`, locked: sql`i, a` };
}
