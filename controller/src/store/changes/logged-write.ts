import type { Permission } from "@sallyport/wire";
import { type CompiledQuery, type QueryExecutorProvider, type RawBuilder, sql } from "kysely";
import { type Executor, Statement, withOptions } from "../driver/statement.ts";
import type { Semantic } from "../schema.ts";
import type { ApiSessionKind, RevocationType } from "../session-tables.ts";
import type { Change } from "./change-log.ts";
import { packedSql } from "./packed-changes.ts";

/** Rows that a statement changes, and how they stand in the change log. */
export interface LoggedRows {
  readonly kind: ChangeKind;
  readonly op: Change["op"];
  /** The part of the statement that returns the rows: a name of its `WITH`. */
  readonly of: string;
  /** The column that holds the entity's id; default `id`. */
  readonly key?: string;
  /** What readers need of the state before: the column for each field. */
  readonly before?: Readonly<Record<string, string>>;
  /** Several rows may have the same key: it is logged once. */
  readonly isDistinct?: boolean;
  /** There may be many: those with the same `before` share rows of the log ({@link packedSql}). Readers get each for itself. */
  readonly isPacked?: boolean;
}

interface LoggedWriteOptions<Text> {
  /** At least one: a write that changes nothing which the log knows is no logged write. */
  readonly changes: readonly [LoggedRows, ...LoggedRows[]];
  /** A `SELECT` over the parts, for a statement whose result is read. */
  readonly answer?: Text;
  /** Nothing reads the result, so that it may be sent together with the next statement of its transaction. */
  readonly isPipelined?: boolean;
}

/** A write of fixed text that appends its changes to the log in the same statement. */
export class LoggedStatement<Row> extends Statement<Row> {
  /** @param parts `WITH …`, whose parts return the changed rows; with parameters `$1`, `$2`, … */
  constructor(parts: string, { changes, answer, isPipelined }: LoggedWriteOptions<string>) {
    const append = appendSql(changes);
    super(answer === undefined ? `${parts} ${append}` : `${parts}, logged AS (${append}) ${answer}`, {
      appendsChanges: true,
      addsOnly: addOnly(changes),
      isPipelined,
    });
  }
}

/**
 * Runs a write that appends its changes to the log in the same statement. `parts`: `WITH …`, whose parts return the changed rows. Returns the rows of
 * `answer`.
 */
export async function loggedWrite<Row = never>(
  db: Executor & QueryExecutorProvider,
  parts: RawBuilder<unknown>,
  { changes, answer, isPipelined }: LoggedWriteOptions<RawBuilder<Row>>,
): Promise<Row[]> {
  const append = sql.raw(appendSql(changes));
  const whole =
    answer === undefined ? sql<Row>`${parts} ${append}` : sql<Row>`${parts}, logged AS (${append}) ${answer}`;
  const query = whole.compile(db) as CompiledQuery<Row>;
  const { rows } = await db.executeQuery<Row>(
    withOptions(query, { appendsChanges: true, addsOnly: addOnly(changes), isPipelined }),
  );
  return rows;
}

/** Kinds of entities of which a new one is in no process's memory: a process that does not know it reads it. */
const READ_WHEN_NEW: ReadonlySet<ChangeKind> = new Set(["api_session", "session", "terminator", "model_change"]);

function addOnly(changes: readonly LoggedRows[]): boolean {
  return changes.every(({ kind, op }) => op === "create" && READ_WHEN_NEW.has(kind));
}

function appendSql(changes: readonly LoggedRows[]): string {
  const selects = changes.map(({ kind, op, of, key = "id", before, isDistinct, isPacked }) => {
    if (isPacked) {
      const shared = Object.values(before ?? {});
      const state = Object.keys(before ?? {}).map((field, index) => `${literal(field)}, shared${index}`);
      return `SELECT ${literal(kind)}, key, ${literal(op)}, jsonb_build_object(${state.join(", ")}) || further
        FROM ${packedSql({ of, key, shared })} packed`;
    }
    const fields = Object.entries(before ?? {}).map(([field, column]) => `${literal(field)}, ${column}`);
    const state = before === undefined ? "NULL::jsonb" : `jsonb_build_object(${fields.join(", ")})`;
    return `SELECT ${isDistinct ? "DISTINCT " : ""}${literal(kind)}, ${key}, ${literal(op)}, ${state} FROM ${of}`;
  });
  return `INSERT INTO change_log (kind, key, op, before) ${selects.join(" UNION ALL ")}`;
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** What a change is about: one kind per entity table. */
export type ChangeKind =
  | "identity"
  | "service"
  | "router"
  | "config"
  | "config_type"
  | "posture_check"
  | "service_policy"
  | "edge_router_policy"
  | "service_edge_router_policy"
  | "identity_service_config"
  | "terminator"
  | "auth_policy"
  | "authenticator"
  | "enrollment"
  | "ca"
  | "ext_jwt_signer"
  | "mfa"
  | "api_session"
  | "api_session_certificate"
  | "session"
  | "revocation"
  | "token_key"
  /** Where a controller process is reached, and which of them leads. */
  | "replica"
  /** The router data model has changed: its key is the index (`model/data-model/shared-changes.ts`). */
  | "model_change"
  /** What is known of an identity's devices: no table, the row only says that its services look different now. */
  | "posture_state"
  /** What is stored of an identity's devices and of its API sessions' posture differs from before. */
  | "posture_report"
  /** The services of all identities: no table. A controller that has started, or missed changes, writes it. */
  | "service_updates";

/**
 * `before` of change-log rows, by kind; other kinds carry null.
 * - the three policies, identity, service, router: the old row's `attrs`/selectors as `{ attrs }` or `PolicyBefore`;
 * - auth_policy, mfa: what says whose sessions may have become full by it;
 * - api_session, session: `{ token, identityId, … }`, because a deleted row cannot be read any more;
 * - revocation: what it revokes and until when, so that it counts before it was read.
 */
export interface PolicyBefore {
  readonly semantic: Semantic;
  readonly type?: Permission | undefined;
  readonly sides: Readonly<
    Record<string, { readonly all: boolean; readonly attrs: readonly string[]; readonly ids: readonly string[] }>
  >;
}
/** Of a change of posture. */
export interface PostureBefore {
  /** The controller process that wrote it: it knows already. */
  by: string;
}
/** Of an update: its identity, or its policy, may not ask for a one-time code any more. */
export interface AuthPolicyBefore {
  isTotpNoLongerRequired: boolean;
}
export interface IdentityBefore {
  attrs: string[];
  isAuthPolicyChanged?: boolean;
}
/** Of a removal. */
export interface MfaBefore {
  identityId: string;
}
export interface ApiSessionBefore {
  token: string;
  identityId: string;
  kind: ApiSessionKind;
  /** Its OIDC login was not complete: it had no tokens. */
  isPending: boolean;
}
/** Of an update of a session of kind `oidc`, when tokens were made. */
export interface ApiSessionUpdateBefore {
  tokens: "created" | "refreshed" | "exchanged";
}
/** Also of the row that says that it was made. */
export interface RevocationBefore {
  type: RevocationType;
  expiresAt: string;
}
export interface SessionBefore {
  token: string;
  apiSessionId: string;
  identityId: string;
  serviceId: string;
  type: Permission;
}

/** The columns from which a statement takes the state before: see `loggedWrite`. */
export const API_SESSION_BEFORE: Record<keyof ApiSessionBefore, string> = {
  token: "token",
  identityId: "identity_id",
  kind: "kind",
  isPending: "kind = 'oidc' AND access_until IS NULL",
};
export const REVOCATION_BEFORE: Record<keyof RevocationBefore, string> = { type: "type", expiresAt: "expires_at" };
export const SESSION_BEFORE: Record<keyof SessionBefore, string> = {
  token: "token",
  apiSessionId: "api_session_id",
  identityId: "identity_id",
  serviceId: "service_id",
  type: "type",
};
export const TERMINATOR_BEFORE = { routerId: "router_id", serviceId: "service_id" };
