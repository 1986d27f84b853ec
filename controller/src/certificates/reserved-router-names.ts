import { X509Certificate } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { type Kysely, sql } from "kysely";
import { leafOf } from "../pki/issue.ts";
import type { Pki } from "../pki/pki.ts";

/** A router whose certificate has a name that routers no longer get. */
export interface ReservedRouterName {
  readonly routerId: string;
  readonly name: string;
  /** Of the controller. */
  readonly host: string;
}

const BATCH = 500;

/**
 * Routers whose next certificate will be refused unless they ask for other names or the host is shared. Reads in batches, so that other work can run in
 * between.
 */
export async function reservedRouterNames(
  db: Pick<Kysely<unknown>, "getExecutor">,
  pki: Pick<Pki, "reservedHostIn">,
): Promise<ReservedRouterName[]> {
  const found: ReservedRouterName[] = [];
  for (let after: string | undefined = ""; after !== undefined; ) {
    const { rows }: { rows: { id: string; name: string; pem: string }[] } = await sql<{
      id: string;
      name: string;
      pem: string;
    }>`SELECT id, name, cert_pem AS pem FROM router WHERE cert_pem IS NOT NULL AND id > ${after} ORDER BY id LIMIT ${BATCH}`.execute(
      db as Kysely<unknown>,
    );
    for (const { id, name, pem } of rows) {
      const host = pki.reservedHostIn(new X509Certificate(leafOf(pem)));
      if (host !== undefined) found.push({ routerId: id, name, host });
    }
    after = rows.at(-1)?.id;
    await nextTurn();
  }
  return found;
}
