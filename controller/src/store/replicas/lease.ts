import type pg from "pg";
import { TIME_MS } from "../clock/database-clock.ts";
import { ask } from "../postgres/store-client.ts";

/** How long the others count with a process that is silent. */
export const LEASE_MS = 1_500;
/** How often a process renews its lease, and looks at those of the others. */
export const RENEW_MS = 500;
/** How long the server may take to renew a lease, which has run out by then. A silent server is left then: its standby may have been promoted. */
const RENEWAL_ANSWER_MS = 2_000;
/** How long a process has no lease before others take over what it had: it may come back. */
export const TAKEOVER_MS = 2_000;
/** Longer than a statement of a lease's connection can take at the server after its process last knew that it had a lease. */
export const QUIET_MS = 30_000;
/** The two halves of the key of the advisory lock that the leader holds. A controller that runs alone holds the same one. */
export const LEADER_LOCK = [0x5a11_0002, 1] as const;
/** Key of an advisory lock: those who change the schema hold it exclusively, those whom that would hurt hold it shared. */
export const SCHEMA_LOCK = [0x5a11_0004, 1] as const;
/** How connections of replicas name themselves at the server, before the process's name. */
export const REPLICA_PREFIX = "sallyport-replica ";

export interface LeaseRow {
  readonly instance: string;
  readonly replicaId: string;
  readonly name: string;
  readonly pid: number;
  readonly leads: boolean;
}

export interface Renewal {
  readonly others: readonly LeaseRow[];
  /** The current epoch; undefined before the first. */
  readonly epoch: string | undefined;
  /** Does this connection hold the lock of the leader? Only if it was asked for. */
  readonly hasLock: boolean;
  /** Level of the oldest program that works on the schema. */
  readonly worksFrom: number;
  /** The time of the database while it answered, in milliseconds. */
  readonly at: number | undefined;
}

export interface Renewing {
  readonly instance: string;
  readonly replicaId: string;
  readonly name: string;
  /** Is this process the leader? */
  readonly leads: boolean;
  /** Does it want to be? */
  readonly campaigns: boolean;
  /** The schema level of its program, and its version. */
  readonly level: number;
  readonly version: string;
}

/** Looks at the others together with the statement `write`, which gives the process its lease. */
const withLease = (write: string) => `
  WITH mine AS (${write} RETURNING instance)
  SELECT EXISTS (SELECT FROM mine) AS "hasLease",
    (SELECT json_agg(json_build_object('instance', instance, 'replicaId', replica_id, 'name', name, 'pid', pid, 'leads', leads))
      FROM replica_lease WHERE instance <> $1 AND until > clock_timestamp()) AS others,
    (SELECT epoch FROM controller_epoch) AS epoch,
    (SELECT max(works_from) FROM schema_migration) AS "worksFrom",
    CASE WHEN $4 THEN pg_try_advisory_lock(${LEADER_LOCK.join(", ")}) ELSE false END AS "hasLock",
    ${TIME_MS} AS at`;

/** Of a lease that has not run out. */
const RENEW = withLease(`UPDATE replica_lease
  SET pid = pg_backend_pid(), leads = $2, until = clock_timestamp() + make_interval(secs => $3)
  WHERE instance = $1 AND until > clock_timestamp()`);

const JOIN = withLease(`INSERT INTO replica_lease (instance, replica_id, name, pid, leads, until, level, version)
  VALUES ($1, $5, $6, pg_backend_pid(), $2, clock_timestamp() + make_interval(secs => $3), $7, $8)
  ON CONFLICT (instance) DO UPDATE SET pid = excluded.pid, leads = excluded.leads, until = excluded.until`);

interface LeaseAnswer {
  readonly hasLease: boolean;
  readonly others: LeaseRow[] | null;
  readonly epoch: string | null;
  readonly worksFrom: number | null;
  readonly hasLock: boolean;
  readonly at: number;
}

/**
 * Renews the lease of a process and looks at the others, in one statement. It does not show leases that were written while it ran.
 *
 * Without a lease the process may have been taken for gone, and the schema changed. So it gets one only together with a look at the schema, under a lock that
 * keeps the schema as it is. Rejects when the server does not answer in time.
 */
export async function renewLease(client: pg.ClientBase, own: Renewing, answerMs: number): Promise<Renewal> {
  const { instance, replicaId, name, leads, campaigns, level, version } = own;
  const values = [instance, leads, LEASE_MS / 1_000, campaigns];
  const [renewed] = await ask<LeaseAnswer & pg.QueryResultRow>(
    client,
    RENEW,
    values,
    Math.min(answerMs, RENEWAL_ANSWER_MS),
  );
  if (renewed?.hasLease === true) return renewalOf(renewed);
  await ask(client, "BEGIN", undefined, answerMs);
  await ask(client, "SELECT pg_advisory_xact_lock_shared($1, $2)", [...SCHEMA_LOCK], answerMs);
  const further = [replicaId, name, level, version];
  const [joined] = await ask<LeaseAnswer & pg.QueryResultRow>(client, JOIN, [...values, ...further], answerMs);
  const isTooOld = (joined?.worksFrom ?? 0) > level;
  await ask(client, isTooOld ? "ROLLBACK" : "COMMIT", undefined, answerMs);
  return renewalOf(joined);
}

function renewalOf(answer: LeaseAnswer | undefined): Renewal {
  const { others, epoch, worksFrom, hasLock = false, at } = answer ?? {};
  return { others: others ?? [], epoch: epoch ?? undefined, worksFrom: worksFrom ?? 0, hasLock, at };
}

/** Ends the lease, and removes those that ran out long ago. */
export async function endLease(client: pg.ClientBase, instance: string, answerMs: number): Promise<void> {
  const text = "DELETE FROM replica_lease WHERE instance = $1 OR until < now() - interval '1 hour'";
  await ask(client, text, [instance], answerMs);
}

/** Who holds the lock of the leader, if anyone does. */
export interface LockHolder {
  readonly pid: number;
  /** Null, as is the time, for the connection of another role. */
  readonly application: string | null;
  /** Where it connects from; null for a Unix socket. */
  readonly address: string | null;
  readonly since: Date | null;
}

export const LEADER_LOCK_HOLDER = `
  SELECT a.pid, a.application_name AS application, host(a.client_addr) AS address, a.backend_start AS since
  FROM pg_locks l JOIN pg_stat_activity a USING (pid)
  WHERE l.locktype = 'advisory' AND l.granted AND l.classid = ${LEADER_LOCK[0]} AND l.objid = ${LEADER_LOCK[1]}
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`;

export async function leaderLockHolder(client: pg.ClientBase, answerMs: number): Promise<LockHolder | undefined> {
  const [row] = await ask<LockHolder & pg.QueryResultRow>(client, LEADER_LOCK_HOLDER, undefined, answerMs);
  return row;
}

/** Ends the connection of a leader that is silent: the server gives its lock free. */
export async function endConnection(client: pg.ClientBase, pid: number, answerMs: number): Promise<void> {
  const text = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name LIKE $2";
  await ask(client, text, [pid, `${REPLICA_PREFIX}%`], answerMs);
}

/** Processes with a lease now; none before the schema knows of leases. */
export async function leasesNow(
  client: pg.ClientBase,
  answerMs: number,
): Promise<readonly { readonly name: string }[]> {
  const text = "SELECT name FROM replica_lease WHERE until > clock_timestamp() ORDER BY name";
  return ask<{ name: string }>(client, text, [], answerMs);
}
