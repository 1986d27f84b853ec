import { likely, Statement } from "../../store/driver/statement.ts";
import type { EnrollmentMethod } from "../../store/schema.ts";
import type { Db } from "../context.ts";
import { turn } from "../event-loop.ts";
import type { IdentityRow } from "./identities.ts";

interface AuthenticatorSummary {
  readonly id: string;
  readonly method: "cert" | "updb";
  readonly fingerprint: string | null;
  readonly username: string | null;
}

interface EnrollmentSummary {
  readonly id: string;
  readonly method: EnrollmentMethod;
  readonly token: string;
  readonly jwt: string;
  readonly expires_at: string | Date;
  readonly ca_id: string | null;
  readonly ca_name: string | null;
}

interface ShownRow extends IdentityRow {
  policy_name: string | null;
  has_session: boolean;
  has_mfa: boolean;
  env_info: Record<string, string> | null;
  sdk_info: Record<string, string> | null;
}

/** An identity with what is shown of it from other tables. */
export interface ShownIdentity extends ShownRow {
  readonly authenticators: readonly AuthenticatorSummary[];
  readonly enrollments: readonly EnrollmentSummary[];
}

const COLUMNS = `i.*, p.name AS policy_name, EXISTS (SELECT 1 FROM api_session s WHERE s.identity_id = i.id AND (s.kind = 'legacy' OR s.access_until IS NOT NULL)) AS has_session,
  EXISTS (SELECT 1 FROM mfa m WHERE m.identity_id = i.id AND m.is_verified) AS has_mfa, f.env_info, f.sdk_info`;
const TABLES = `FROM identity i LEFT JOIN auth_policy p ON p.id = i.auth_policy_id
  LEFT JOIN identity_info f ON f.identity_id = i.id`;

const WHOLE = `
  SELECT ${COLUMNS},
    coalesce((SELECT json_agg(json_build_object('id', a.id, 'method', a.method, 'fingerprint', a.fingerprint,
      'username', a.username) ORDER BY a.id) FROM authenticator a WHERE a.identity_id = i.id), '[]') AS authenticators,
    coalesce((SELECT json_agg(json_build_object('id', e.id, 'method', e.method, 'token', e.token, 'jwt', e.jwt,
      'expires_at', e.expires_at, 'ca_id', e.ca_id, 'ca_name', c.name) ORDER BY e.id)
      FROM enrollment e LEFT JOIN ca c ON c.id = e.ca_id WHERE e.identity_id = i.id), '[]') AS enrollments
  ${TABLES}`;
const ONE = new Statement<ShownIdentity>(`${WHOLE} WHERE i.id = $1`);
const FEW = new Statement<ShownIdentity>(`${WHOLE} WHERE i.id = ANY ($1::text[])`);

// For a long page, a look-up of the rows of all its identities costs half of what one for each does; for a short one, three statements cost more than one.
const PAGE = new Statement<ShownRow>(`SELECT ${COLUMNS} ${TABLES} WHERE i.id = ANY ($1::text[])`);
const AUTHENTICATORS = new Statement<AuthenticatorSummary & { identity_id: string }>(`
  SELECT identity_id, id, method, fingerprint, username FROM authenticator WHERE identity_id = ANY ($1::text[]) ORDER BY id`);
const ENROLLMENTS = new Statement<EnrollmentSummary & { identity_id: string }>(`
  SELECT e.identity_id, e.id, e.method, e.token, e.jwt, e.expires_at, e.ca_id, c.name AS ca_name
  FROM enrollment e LEFT JOIN ca c ON c.id = e.ca_id WHERE e.identity_id = ANY ($1::text[]) ORDER BY e.id`);

/** A page of so many rows is read by one statement, and written out without waiting for a turn of its own. */
const SHORT_PAGE = 20;

/** In the order of the ids; those that are gone are left out. */
export async function shownIdentities(db: Db, ids: readonly string[]): Promise<ShownIdentity[]> {
  if (ids.length <= 1) return ids.length === 0 ? [] : ONE.rows(db, ids);
  const wanted = [likely(ids)];
  if (ids.length <= SHORT_PAGE) {
    const found = new Map((await FEW.rows(db, wanted)).map((row) => [row.id, row]));
    return ids.flatMap((id) => found.get(id) ?? []);
  }
  const [rows, authenticators, enrollments] = await Promise.all([
    PAGE.rows(db, wanted),
    AUTHENTICATORS.rows(db, wanted),
    ENROLLMENTS.rows(db, wanted),
  ]);
  await turn();
  const byId = new Map(rows.map((row) => [row.id, row]));
  const authenticatorsOf = byIdentity(authenticators);
  const enrollmentsOf = byIdentity(enrollments);
  return ids.flatMap((id) => {
    const row = byId.get(id);
    if (row === undefined) return [];
    // Added to the row itself: a copy of its thirty columns is what most of the time would go to.
    return Object.assign(row, {
      authenticators: authenticatorsOf.get(id) ?? [],
      enrollments: enrollmentsOf.get(id) ?? [],
    });
  });
}

function byIdentity<T extends { readonly identity_id: string }>(rows: readonly T[]): ReadonlyMap<string, T[]> {
  return Map.groupBy(rows, (row) => row.identity_id);
}
