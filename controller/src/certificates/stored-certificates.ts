import { X509Certificate } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { splitPem } from "@sallyport/wire";
import { type Kysely, type RawBuilder, sql } from "kysely";
import { leafOf } from "../pki/issue.ts";
import type { Pki } from "../pki/pki.ts";

type Db = Pick<Kysely<unknown>, "getExecutor">;

const BATCH = 500;

/** The rows of a query for certificates by id, in batches between which other work can run: the store may hold very many. */
async function* storedCertificates<Row extends { readonly id: string; readonly pem: string }>(
  db: Db,
  query: RawBuilder<unknown>,
): AsyncGenerator<Row> {
  for (let after: string | undefined = ""; after !== undefined; ) {
    const { rows }: { rows: Row[] } = await sql<Row>`
      SELECT * FROM (${query}) AS stored WHERE id > ${after} ORDER BY id LIMIT ${BATCH}`.execute(db as Kysely<unknown>);
    yield* rows;
    after = rows.at(-1)?.id;
    await nextTurn();
  }
}

/** How many certificates in use the former authority has issued. */
export interface FormerLeaves {
  readonly identities: number;
  readonly routers: number;
  readonly sessions: number;
}

export async function countFormerLeaves(db: Db, formerIntermediatePem: string): Promise<FormerLeaves> {
  const former = splitPem(formerIntermediatePem).map((pem) => new X509Certificate(pem));
  const count = async (query: RawBuilder<unknown>) => {
    let total = 0;
    for await (const { pem } of storedCertificates(db, query)) if (isIssuedByOneOf(pem, former)) total += 1;
    return total;
  };
  return {
    identities: await count(
      sql`SELECT id, cert_pem AS pem FROM authenticator WHERE is_issued_by_network AND cert_pem IS NOT NULL`,
    ),
    routers: await count(sql`SELECT id, cert_pem AS pem FROM router WHERE cert_pem IS NOT NULL`),
    sessions: await count(sql`SELECT id, cert_pem AS pem FROM api_session_certificate`),
  };
}

export function isNone({ identities, routers, sessions }: FormerLeaves): boolean {
  return identities + routers + sessions === 0;
}

function isIssuedByOneOf(pem: string, former: readonly X509Certificate[]): boolean {
  const [block] = splitPem(pem);
  if (block === undefined) return false;
  const leaf = new X509Certificate(block);
  return former.some((issuer) => leaf.checkIssued(issuer));
}

/** A router whose certificate has a name that routers no longer get. */
interface ReservedRouterName {
  readonly routerId: string;
  readonly name: string;
  /** Host of the controller that the certificate is good for. */
  readonly host: string;
}

/** Routers whose next certificate will be refused unless they ask for other names or the host is shared. */
export async function reservedRouterNames(db: Db, pki: Pick<Pki, "reservedHostIn">): Promise<ReservedRouterName[]> {
  const found: ReservedRouterName[] = [];
  const query = sql`SELECT id, name, cert_pem AS pem FROM router WHERE cert_pem IS NOT NULL`;
  for await (const { id, name, pem } of storedCertificates<{ id: string; name: string; pem: string }>(db, query)) {
    const host = pki.reservedHostIn(new X509Certificate(leafOf(pem)));
    if (host !== undefined) found.push({ routerId: id, name, host });
  }
  return found;
}
