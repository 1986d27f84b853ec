import { X509Certificate } from "node:crypto";
import { setImmediate as nextTurn } from "node:timers/promises";
import { splitPem } from "@sallyport/wire";
import { type Kysely, sql } from "kysely";

/** Certificates in use that the former authority has issued. */
export interface FormerLeaves {
  readonly identities: number;
  readonly routers: number;
  readonly sessions: number;
}

const BATCH = 500;

const QUERIES = {
  identities: sql`SELECT id, cert_pem AS pem FROM authenticator WHERE is_issued_by_network AND cert_pem IS NOT NULL`,
  routers: sql`SELECT id, cert_pem AS pem FROM router WHERE cert_pem IS NOT NULL`,
  sessions: sql`SELECT id, cert_pem AS pem FROM api_session_certificate WHERE true`,
};

/** Counts them, in batches between which others get their turn: the store may hold very many certificates. */
export async function countFormerLeaves(
  db: Pick<Kysely<unknown>, "getExecutor">,
  formerIntermediatePem: string,
): Promise<FormerLeaves> {
  const former = splitPem(formerIntermediatePem).map((pem) => new X509Certificate(pem));
  const count = async (query: (typeof QUERIES)[keyof typeof QUERIES]) => {
    let total = 0;
    let after = "";
    for (;;) {
      const { rows } = await sql<{ id: string; pem: string }>`
        SELECT id, pem FROM (${query}) AS leaves WHERE id > ${after} ORDER BY id LIMIT ${BATCH}`.execute(
        db as Kysely<unknown>,
      );
      const last = rows.at(-1);
      if (last === undefined) return total;
      after = last.id;
      total += rows.filter(({ pem }) => isIssuedByOneOf(pem, former)).length;
      await nextTurn();
    }
  };
  return {
    identities: await count(QUERIES.identities),
    routers: await count(QUERIES.routers),
    sessions: await count(QUERIES.sessions),
  };
}

function isIssuedByOneOf(pem: string, former: readonly X509Certificate[]): boolean {
  const [block] = splitPem(pem);
  if (block === undefined) return false;
  const leaf = new X509Certificate(block);
  return former.some((issuer) => leaf.checkIssued(issuer));
}

export function isNone({ identities, routers, sessions }: FormerLeaves): boolean {
  return identities + routers + sessions === 0;
}
