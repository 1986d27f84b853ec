import { apiError, type PostureReport } from "@sallyport/api";
import {
  isEndpointEvent,
  lastReportAt,
  type PostureCheck,
  type PostureState,
  passes,
  postureType,
  promptedAt,
  saysTheSame,
} from "@sallyport/posture";
import type { Permission } from "@sallyport/wire";
import { type RawBuilder, type SqlBool, sql } from "kysely";
import type { PolicyIndex, ServicePolicy } from "../../policy/policy-index.ts";
import type { Attributed } from "../../policy/selector.ts";
import { appendChange } from "../../store/changes/change-log.ts";
import type { ChangeRow } from "../../store/changes/change-log-reads.ts";
import type { ApiSessionKind } from "../../store/session-tables.ts";
import type { Db, ModelContext } from "../context.ts";
import { namesOf } from "../entity.ts";
import type { PolicyMirror } from "../policy/policy-mirror.ts";
import { endSessions } from "../session/session-removal.ts";
import { describeFailure, FailedRequests } from "./failed-requests.ts";
import { followPosture } from "./followed-posture.ts";
import { PostureReports } from "./posture-reports.ts";
import { StoredReports } from "./stored-reports.ts";

/** A service policy that does not let through, and the checks of it that fail. */
export interface PolicyFailure {
  readonly policyId: string;
  readonly checks: readonly PostureCheck[];
}

/** A request to use a service in an API session. */
interface ServiceRequest {
  readonly identityId: string;
  readonly apiSessionId: string;
  readonly service: { readonly id: string; readonly name: string };
  readonly type: Permission;
}

/** A service that goes on for the grace time only, unless TOTP is passed again. */
export interface PromptedService {
  readonly id: string;
  readonly name: string;
  readonly timeoutSeconds: number;
}

const BATCH = 500;
/** An identity without stored reports keeps its sessions for this long after a start: clients need the time to notice it and to report again. */
const RESTART_GRACE_MS = 120_000;
/** Every so many sweeps look at all sessions, the others at those whose checks time out. */
const SWEEPS_PER_FULL = 12;
const MAX_PROMPTED = 1000;

/** Changes after which any session may fail, or pass, that did not before. */
const RECHECK_KINDS: ReadonlySet<string> = new Set(["posture_check", "service_policy", "service", "identity"]);

/**
 * Holds what devices report against the posture checks of policies (docs/protocol/posture.md): for each new session and circuit, and again while sessions
 * last. A service may be used when at least one policy that grants it passes whole.
 */
export class Posture {
  readonly reports = new PostureReports();
  /** What of the reports is in the store. */
  readonly stored: StoredReports;
  readonly failedRequests = new FailedRequests();
  readonly #ctx: ModelContext;
  readonly #policy: PolicyMirror;
  readonly #startedAt: number;
  #loaded: Promise<void> | undefined;
  #unfollow: (() => void) | undefined;
  #isFullSweepDue = true;
  /** Identities whose services look different now, and whose stamp could not be written yet. */
  readonly #unstamped = new Set<string>();
  #sweeps = 0;

  constructor(ctx: ModelContext, policy: PolicyMirror) {
    this.#ctx = ctx;
    this.#policy = policy;
    this.stored = new StoredReports(ctx, this.reports);
    this.#startedAt = ctx.now().getTime();
  }

  /** The policies that keep the identity from the service; empty when one lets it through, or none links the two. */
  async failures(
    identity: Attributed,
    apiSessionId: string,
    serviceId: string,
    type: Permission,
  ): Promise<readonly PolicyFailure[]> {
    await this.ready([identity.id]);
    return this.failuresIn(await this.#policy.current(), identity, apiSessionId, serviceId, type);
  }

  /** As {@link failures} with an index at hand, once {@link ready} for the identity. */
  failuresIn(
    index: PolicyIndex,
    identity: Attributed,
    apiSessionId: string,
    serviceId: string,
    type: Permission,
  ): readonly PolicyFailure[] {
    if (!index.hasChecks) return [];
    const policies = index.granting(identity, serviceId, type);
    if (policies.some((policy) => index.checksOf(policy).length === 0)) return [];
    const known = this.reports.of(identity.id, apiSessionId);
    const failures: PolicyFailure[] = [];
    for (const policy of policies) {
      const failing = this.#failing(index, policy, known);
      if (failing.length === 0) return [];
      failures.push({ policyId: policy.id, checks: failing });
    }
    return failures;
  }

  /**
   * Refuses a session that posture does not allow, and keeps for administrators why.
   * @returns the error 409 `INVALID_POSTURE` to throw
   */
  async refuse(db: Db, failures: readonly PolicyFailure[], request: ServiceRequest): Promise<Error> {
    await this.record(db, failures, request);
    return apiError("INVALID_POSTURE", {
      message: `Failed to pass posture checks for service policies: [${failures.map(({ policyId }) => policyId).join(", ")}]`,
      data: Object.fromEntries(
        failures.map(({ policyId, checks }) => [
          policyId,
          checks.map(({ id, typeId }) => ({ id, typeId, isPassing: false })),
        ]),
      ),
    });
  }

  /** Keeps for administrators why a request was refused, be it for a session, or to use one. */
  async record(db: Db, failures: readonly PolicyFailure[], request: ServiceRequest): Promise<void> {
    const now = this.#ctx.now();
    const known = this.reports.of(request.identityId, request.apiSessionId);
    const ids = failures.map((failure) => failure.policyId);
    const names = await namesOf(db, "service_policy", ids);
    this.failedRequests.add(request.identityId, {
      apiSessionId: request.apiSessionId,
      policyFailures: failures.map(({ policyId, checks }) => ({
        policyId,
        policyName: names.get(policyId) ?? "",
        checks: checks.map((check) => describeFailure(check, known, now.getTime())),
      })),
      serviceId: request.service.id,
      serviceName: request.service.name,
      sessionType: request.type,
      when: now.toISOString(),
    });
  }

  /**
   * Takes reports of a client. Changes for its services show in its service-update stamp; sessions that no longer pass end. What differs from before is in
   * the store when this resolves, and so known to every controller: clients do not report it again.
   * @returns the services that require TOTP again because the device woke up or was unlocked
   */
  async report(
    identity: Attributed,
    apiSessionId: string,
    reports: readonly PostureReport[],
  ): Promise<PromptedService[]> {
    await this.ready([identity.id]);
    const index = await this.#policy.current();
    const before = this.#outcome(index, identity, apiSessionId);
    const { device } = this.reports.of(identity.id, apiSessionId);
    // Not before what is known: the clock of the controller that took that may be ahead.
    const at = Math.max(this.#ctx.now().getTime(), lastReportAt(device));
    for (const report of reports) this.reports.add(identity.id, apiSessionId, report, at);
    const after = this.reports.of(identity.id, apiSessionId);
    const hasEvent = reports.some(isEndpointEvent);
    const prompted = hasEvent ? this.#promptedPolicies(index, identity, apiSessionId) : [];
    const isOther = prompted.length > 0 || this.#outcome(index, identity, apiSessionId) !== before;
    const write = async () => {
      if (hasEvent) await this.stored.putEvents(identity.id, apiSessionId, after.session);
      if (isOther || !saysTheSame(device, after.device)) await this.stored.flush();
    };
    if (isOther) await this.#apply(identity.id, write);
    else await write();
    return this.#servicesOf(index, prompted);
  }

  /** TOTP was passed in a session: checks count from now, at every controller. */
  async passedMfa(identityId: string, apiSessionId: string, at: Date): Promise<void> {
    await this.ready([identityId]);
    this.reports.passedMfa(identityId, apiSessionId, at.getTime());
    await this.#stampNow(identityId, async (trx) => {
      await sql`UPDATE api_session SET mfa_passed_at = ${at} WHERE id = ${apiSessionId}
        AND (mfa_passed_at IS NULL OR mfa_passed_at < ${at})`.execute(trx);
    });
    // What was read meanwhile did not have it yet.
    this.reports.passedMfa(identityId, apiSessionId, at.getTime());
  }

  /** The identity uses TOTP no longer: it is passed in none of its sessions. */
  async forgetMfa(identityId: string): Promise<void> {
    await this.ready();
    const { rows } = await sql<{ id: string }>`SELECT id FROM api_session WHERE identity_id = ${identityId}`.execute(
      this.#ctx.store.db,
    );
    this.reports.forgetMfa(rows.map((row) => row.id));
    await this.#apply(identityId);
  }

  /** What belongs to entities that are gone goes, too; other changes may let sessions fail. */
  onChanges(rows: readonly ChangeRow[]): void {
    for (const { kind, key, op } of rows) {
      if (RECHECK_KINDS.has(kind)) this.#isFullSweepDue = true;
      if (op !== "delete") continue;
      if (kind === "api_session") this.reports.forgetSession(key);
      if (kind === "identity") {
        this.reports.forgetIdentity(key);
        this.failedRequests.forget(key);
      }
    }
  }

  /** Ends the sessions whose checks fail now. Every few seconds: those that may have timed out; after changes and now and then all. */
  async sweep(): Promise<number> {
    await this.ready();
    for (const identityId of this.#unstamped) await this.#stampNow(identityId);
    const index = await this.#policy.current();
    this.#sweeps += 1;
    const isFull = this.#isFullSweepDue || this.#sweeps % SWEEPS_PER_FULL === 0;
    this.#isFullSweepDue = false;
    try {
      const policies = index
        .policiesWithChecks()
        .filter((policy) => isFull || index.checksOf(policy).some((each) => postureType(each.typeId).isTimed(each)));
      if (policies.length === 0) return 0;
      const services = [...new Set(policies.flatMap((policy) => index.servicesOfPolicy(policy.id)))];
      return await this.endFailing(sql<SqlBool>`s.service_id = ANY (${services}::text[])`);
    } catch (error) {
      this.#isFullSweepDue ||= isFull;
      throw error;
    }
  }

  /** Ends a session whose checks were found to fail when it was to be used. */
  async end(sessionId: string, identityId: string): Promise<void> {
    await this.#ctx.store.transaction(async (trx) => {
      const gone = await endSessions(trx, sql`s.id = ${sessionId}`);
      if (gone.length > 0) await this.#stamp(trx, [identityId]);
    });
  }

  /** Ends those of the sessions `s` that fulfil the condition and whose checks fail. Answers how many. */
  async endFailing(among: RawBuilder<SqlBool>): Promise<number> {
    const { store } = this.#ctx;
    let ended = 0;
    for (let after = ""; ; ) {
      const index = await this.#policy.current();
      if (!index.hasChecks) return ended;
      const { rows } = await sql<StoredSession>`${STORED_SESSION}
        WHERE s.id > ${after} AND ${among} ORDER BY s.id LIMIT ${BATCH}`.execute(store.db);
      await this.ready(rows.map((row) => row.identity_id));
      const failing = rows.filter((row) => this.#isOver(index, row)).map((row) => row.id);
      if (failing.length > 0) ended += await this.#endStillFailing(failing);
      const last = rows.at(-1);
      if (last === undefined || rows.length < BATCH) return ended;
      after = last.id;
    }
  }

  /** Judges again once the sessions are locked: a report may have come meanwhile. */
  async #endStillFailing(ids: readonly string[]): Promise<number> {
    const index = await this.#policy.current();
    return this.#ctx.store.transaction(async (trx) => {
      const { rows } = await sql<StoredSession>`${STORED_SESSION}
        WHERE s.id = ANY (${ids}::text[]) ORDER BY s.id FOR UPDATE OF s`.execute(trx);
      const failing = rows.filter((row) => this.#isOver(index, row)).map((row) => row.id);
      const gone = await endSessions(trx, sql`s.id = ANY (${failing}::text[])`);
      await this.#stamp(trx, new Set(gone.map((each) => each.identityId)));
      return gone.length;
    });
  }

  /**
   * What has to be known before anything is decided: when TOTP was passed in the sessions of an earlier run, and what the devices of these identities
   * reported then, or to another controller before this call.
   */
  async ready(identityIds: readonly string[] = []): Promise<void> {
    const { changes } = this.#ctx.store;
    this.#unfollow ??= followPosture(changes, this, () => {
      this.#loaded = undefined;
    });
    await changes.noticed();
    this.#loaded ??= this.stored.find();
    try {
      await this.#loaded;
    } catch (error) {
      this.#loaded = undefined;
      throw error;
    }
    await this.stored.read(identityIds);
  }

  #isOver(index: PolicyIndex, row: StoredSession): boolean {
    const identity = { id: row.identity_id, attrs: row.attrs };
    // Its client reports to routers, which look after its circuits.
    if (row.kind === "oidc" && !this.reports.hasReported(identity.id)) return false;
    const failures = this.failuresIn(index, identity, row.api_session_id, row.service_id, row.type);
    if (failures.length === 0) return false;
    const isEarly = this.#ctx.now().getTime() - this.#startedAt < RESTART_GRACE_MS;
    const isOlder = row.created_at.getTime() < this.#startedAt;
    if (!isEarly || !isOlder || this.reports.hasReported(identity.id)) return true;
    return failures.every(({ checks }) => checks.some((check) => !postureType(check.typeId).isReported));
  }

  #failing(index: PolicyIndex, policy: ServicePolicy, known: PostureState): PostureCheck[] {
    const now = this.#ctx.now().getTime();
    return index.checksOf(policy).filter((check) => !passes(check, known, now));
  }

  /** Which checks of the identity's policies pass, as a text that differs when they do. */
  #outcome(index: PolicyIndex, identity: Attributed, apiSessionId: string): string {
    const known = this.reports.of(identity.id, apiSessionId);
    return index
      .policiesOf(identity)
      .flatMap((policy) => this.#failing(index, policy, known).map((check) => `${policy.id}/${check.id}`))
      .sort()
      .join();
  }

  #promptedPolicies(
    index: PolicyIndex,
    identity: Attributed,
    apiSessionId: string,
  ): { readonly policyId: string; readonly timeoutSeconds: number }[] {
    const { session } = this.reports.of(identity.id, apiSessionId);
    return index.policiesOf(identity).flatMap((policy) => {
      const check = index
        .checksOf(policy)
        .find((each) => each.typeId === "MFA" && promptedAt(each, session) !== undefined);
      return check?.typeId === "MFA" ? [{ policyId: policy.id, timeoutSeconds: check.timeoutSeconds }] : [];
    });
  }

  async #servicesOf(
    index: PolicyIndex,
    policies: readonly { readonly policyId: string; readonly timeoutSeconds: number }[],
  ): Promise<PromptedService[]> {
    const timeouts = new Map<string, number>();
    for (const { policyId, timeoutSeconds } of policies) {
      for (const id of index.servicesOfPolicy(policyId)) {
        if (timeouts.size < MAX_PROMPTED) timeouts.set(id, timeoutSeconds);
      }
    }
    const names = await namesOf(this.#ctx.store.db, "service", timeouts.keys());
    return [...names].map(([id, name]) => ({ id, name, timeoutSeconds: timeouts.get(id) ?? -1 }));
  }

  /**
   * What is known of an identity's devices has changed: its services look different now, and its sessions may not pass any more.
   * @param write writes what has changed
   */
  async #apply(identityId: string, write?: () => Promise<void>): Promise<void> {
    try {
      this.#unstamped.add(identityId);
      await write?.();
      await this.#stampNow(identityId);
      await this.endFailing(sql<SqlBool>`s.identity_id = ${identityId}`);
    } catch (error) {
      // The next report would find nothing changed: the sweep sees to it.
      this.#isFullSweepDue = true;
      throw error;
    }
  }

  async #stampNow(identityId: string, write?: (trx: Db) => Promise<void>): Promise<void> {
    this.#unstamped.add(identityId);
    await this.#ctx.store.transaction(async (trx) => {
      await write?.(trx);
      await this.#stamp(trx, [identityId]);
    });
    this.#unstamped.delete(identityId);
  }

  /** Says that the services of these identities look different now. */
  async #stamp(db: Db, identityIds: Iterable<string>): Promise<void> {
    const { before } = this.stored;
    const changes = [...identityIds].map((key) => ({ kind: "posture_state", key, op: "update", before }) as const);
    if (changes.length > 0) await appendChange(db, ...changes);
  }
}

const STORED_SESSION = sql`SELECT s.id, s.type, s.api_session_id, s.service_id, s.created_at, i.id AS identity_id, i.attrs, a.kind
  FROM session s JOIN identity i ON i.id = s.identity_id JOIN api_session a ON a.id = s.api_session_id`;

interface StoredSession {
  id: string;
  type: Permission;
  api_session_id: string;
  service_id: string;
  created_at: Date;
  identity_id: string;
  attrs: string[];
  kind: ApiSessionKind;
}
