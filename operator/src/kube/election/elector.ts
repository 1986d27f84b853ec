import { jittered, pause } from "@sallyport/async";
import type { Logger } from "@sallyport/wire";
import { z } from "zod";
import type { CallOptions, KubeClient } from "../client/client.ts";
import { KubeError } from "../client/errors.ts";
import { Deadline } from "../deadline.ts";
import { microTime } from "../formats.ts";
import { apiVersionOf, KINDS, type KubeObject, type ObjectMeta, type OwnerReference } from "../kinds.ts";

/** Retries come up to this much later than asked, so that standbys do not ask at the same time. */
const JITTER = 1.2;

interface LeaseSpec {
  holderIdentity?: string;
  leaseDurationSeconds?: number;
  acquireTime?: string;
  renewTime?: string;
  leaseTransitions?: number;
}

export interface Lease extends KubeObject {
  spec?: LeaseSpec;
}

/** The lease was lost, or could not be renewed in time: this process must end and begin again as a standby. */
export class LeadershipLostError extends Error {
  override readonly name = "LeadershipLostError";
}

export interface ElectorOptions {
  readonly client: Pick<KubeClient, "get" | "create" | "replace">;
  /** Of the Lease. */
  readonly namespace: string;
  readonly name: string;
  /** Different in every process, also in every start of one pod. */
  readonly identity: string;
  /** With which the Lease goes; absent: it stays. */
  readonly owner?: OwnerReference | undefined;
  /** Others take over when the lease was not renewed for this long; default 15,000. */
  readonly leaseDurationMs?: number;
  /** The leader gives up when it could not renew for this long; default 10,000. */
  readonly renewDeadlineMs?: number;
  /** Between two attempts; default 2,000. */
  readonly retryPeriodMs?: number;
  readonly log: Logger;
  /** Hears when leadership begins and ends. */
  readonly onChange?: (isLeader: boolean) => void;
}

/**
 * One leader among several processes, by a Lease (docs/operator/machinery.md, "Leader election").
 * Whether another's lease is over is judged by the own clock alone: by how long ago the record was last seen to change.
 */
export class Elector {
  readonly #o: Required<Omit<ElectorOptions, "onChange" | "owner">> & Pick<ElectorOptions, "onChange" | "owner">;
  /** The record as last read or written, and when it was seen to change (monotonic). */
  #lease: Lease | undefined;
  #changedAt = 0;
  /** When the last renewal that succeeded was begun (monotonic). */
  #renewedAt = Number.NEGATIVE_INFINITY;
  #isLeading = false;

  /** @throws RangeError unless lease duration > renew deadline > 1.2 x retry period */
  constructor(o: ElectorOptions) {
    this.#o = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2_000, ...o };
    const { leaseDurationMs, renewDeadlineMs, retryPeriodMs } = this.#o;
    if (leaseDurationMs > renewDeadlineMs && renewDeadlineMs > retryPeriodMs * JITTER && retryPeriodMs > 0) return;
    throw new RangeError(
      `a lease of ${leaseDurationMs} ms, renewed within ${renewDeadlineMs} ms, tried every ${retryPeriodMs} ms cannot work: ` +
        `the lease must be longer than the deadline, and the deadline than ${JITTER} times the retry period`,
    );
  }

  /** True while the lease is this process's. False also when it has not noticed its end yet. */
  get isLeader(): boolean {
    return this.#isLeading && performance.now() < this.#renewedAt + this.#o.leaseDurationMs;
  }

  /** True while this process may begin something: what is under way then has the rest of the lease to come to its end before another process leads. */
  get mayAct(): boolean {
    return this.#isLeading && performance.now() < this.#renewedAt + this.#o.renewDeadlineMs;
  }

  /** Who held the lease when it was last read. */
  get holder(): string | undefined {
    return this.#lease?.spec?.holderIdentity || undefined;
  }

  /** For the liveness probe: what is wrong when a leader outlived its lease. */
  get problem(): string | undefined {
    return this.#isLeading && !this.isLeader ? "leads although its lease is over" : undefined;
  }

  /**
   * Waits to become the leader, then runs the work. Ends when the signal does: then the work is stopped first and the lease given up after it.
   * @throws LeadershipLostError when the lease is lost: the signal of the work is aborted then, and it is waited for no longer than the lease lasts
   */
  async run(work: (signal: AbortSignal) => Promise<void>, signal: AbortSignal): Promise<void> {
    if (!(await this.#acquire(signal))) return;
    const stop = new AbortController();
    const onEnd = (): void => stop.abort(signal.reason);
    signal.addEventListener("abort", onEnd, { once: true });
    if (signal.aborted) onEnd();
    const worked = new AbortController();
    const working = work(stop.signal).finally(() => worked.abort());
    working.catch(() => {}); // seen below, once the lease is given up
    const lost = await this.#renew(worked.signal);
    signal.removeEventListener("abort", onEnd);
    if (lost !== undefined) {
      stop.abort(lost);
      await this.#untilLeaseEnds(working);
      this.#lead(false);
      throw lost;
    }
    const isMine = this.isLeader;
    this.#lead(false);
    if (isMine) await this.#release();
    await working;
  }

  /** True once this process leads, false when the signal ended the wait. */
  async #acquire(signal: AbortSignal): Promise<boolean> {
    const { log, retryPeriodMs, renewDeadlineMs } = this.#o;
    while (!signal.aborted) {
      try {
        if (await this.#tryToLead(renewDeadlineMs, signal)) {
          this.#lead(true);
          return true;
        }
      } catch (error) {
        if (signal.aborted) return false;
        log.warn({ lease: this.#o.name, err: error }, "cannot ask for the lease; trying again");
      }
      await pause(jittered(retryPeriodMs, [1, JITTER]), signal);
    }
    return false;
  }

  /** Renews until the work has ended; answers why it cannot. */
  async #renew(worked: AbortSignal): Promise<LeadershipLostError | undefined> {
    const { log, retryPeriodMs, renewDeadlineMs, name } = this.#o;
    while (!worked.aborted) {
      await pause(retryPeriodMs, worked);
      if (worked.aborted) return undefined;
      const left = this.#renewedAt + renewDeadlineMs - performance.now();
      try {
        if (left > 0 && (await this.#tryToLead(left))) continue;
      } catch (error) {
        log.warn({ lease: name, err: error }, "cannot renew the lease");
      }
      if (this.holder !== undefined && this.holder !== this.#o.identity) {
        return new LeadershipLostError(`the lease ${name} belongs to ${this.holder} now`);
      }
      if (performance.now() >= this.#renewedAt + renewDeadlineMs) {
        return new LeadershipLostError(`the lease ${name} could not be renewed within ${renewDeadlineMs} ms`);
      }
    }
    return undefined;
  }

  /** True when the lease is this process's for another duration. */
  async #tryToLead(timeoutMs: number, outer?: AbortSignal): Promise<boolean> {
    const deadline = new Deadline(timeoutMs, outer);
    try {
      return await this.#attempt(deadline.signal);
    } finally {
      deadline.release();
    }
  }

  async #attempt(signal: AbortSignal): Promise<boolean> {
    const beganAt = performance.now();
    // The holder writes without reading first; when another client wrote meanwhile, that is a conflict and read below.
    if (!this.#isLeading || this.#lease === undefined) await this.#read(signal);
    const lease = this.#lease;
    const isMine = lease?.spec?.holderIdentity === this.#o.identity;
    if (lease !== undefined && !isMine && !this.#isOver(lease)) return false;
    try {
      const written = await this.#write(lease, isMine, signal);
      this.#see(written);
      this.#renewedAt = beganAt;
      return true;
    } catch (error) {
      // Another client wrote it, or deleted it: then it is made again with the next attempt.
      if (!(error instanceof KubeError) || (error.status !== 409 && !error.isNotFound)) throw error;
      await this.#read(signal);
      return false;
    }
  }

  #isOver({ spec }: Lease): boolean {
    if (!spec?.holderIdentity) return true;
    const durationMs = (spec.leaseDurationSeconds ?? this.#o.leaseDurationMs / 1000) * 1000;
    return performance.now() >= this.#changedAt + durationMs;
  }

  async #write(lease: Lease | undefined, isMine: boolean, signal: AbortSignal): Promise<Lease> {
    const { client, namespace, name, identity, leaseDurationMs } = this.#o;
    const now = microTime();
    const before = lease?.spec;
    const spec: LeaseSpec = {
      holderIdentity: identity,
      leaseDurationSeconds: Math.max(1, Math.round(leaseDurationMs / 1000)),
      acquireTime: isMine ? (before?.acquireTime ?? now) : now,
      renewTime: now,
      leaseTransitions: lease === undefined ? 0 : (before?.leaseTransitions ?? 0) + (isMine ? 0 : 1),
    };
    const about = { apiVersion: apiVersionOf(KINDS.Lease), kind: KINDS.Lease.kind };
    const metadata = this.#owned(lease?.metadata ?? { namespace, name });
    if (lease === undefined) return await client.create<Lease>({ ...about, metadata, spec } as Lease, { signal });
    return await client.replace<Lease>({ ...lease, ...about, metadata, spec } as Lease, { signal });
  }

  #owned(metadata: ObjectMeta): ObjectMeta {
    const { owner } = this.#o;
    const owners = metadata.ownerReferences ?? [];
    if (owner === undefined || owners.some(({ uid }) => uid === owner.uid)) return metadata;
    return { ...metadata, ownerReferences: [...owners, owner] };
  }

  async #read(signal: AbortSignal): Promise<void> {
    const { client, namespace, name } = this.#o;
    const lease = await client.get<Lease>({ kind: KINDS.Lease, namespace, name }, { signal });
    this.#see(lease);
  }

  #see(lease: Lease | undefined): void {
    if (JSON.stringify(lease?.spec) !== JSON.stringify(this.#lease?.spec)) this.#changedAt = performance.now();
    this.#lease = lease;
  }

  #lead(isLeading: boolean): void {
    if (this.#isLeading === isLeading) return;
    this.#isLeading = isLeading;
    const { name, identity, log, onChange } = this.#o;
    log.info({ lease: name, identity }, isLeading ? "leads" : "leads no longer");
    onChange?.(isLeading);
  }

  async #untilLeaseEnds(working: Promise<void>): Promise<void> {
    const left = Math.max(0, this.#renewedAt + this.#o.leaseDurationMs - performance.now());
    const isOver = new AbortController();
    await Promise.race([working.catch(() => {}), pause(left, isOver.signal)]).finally(() => isOver.abort());
  }

  /** The next leader need not wait for the end of the lease. */
  async #release(): Promise<void> {
    const { client, log, name } = this.#o;
    const lease = this.#lease;
    if (lease === undefined) return;
    const now = microTime();
    const spec: LeaseSpec = {
      ...lease.spec,
      holderIdentity: "",
      leaseDurationSeconds: 1,
      renewTime: now,
      acquireTime: now,
    };
    try {
      this.#see(await client.replace<Lease>({ ...lease, spec } as Lease, { timeoutMs: 5_000 }));
    } catch (error) {
      log.warn({ lease: name, err: error }, "could not give the lease up; the next leader waits for its end");
    }
  }
}

/** @throws LeadershipLostError when this process may not act any more */
export type LeaderCheck = () => void;

/** A check that asks whether this process may act at this very moment, and not whether it was told already that it may not. */
export const leaderCheck =
  (mayAct: () => boolean): LeaderCheck =>
  () => {
    if (!mayAct()) throw new LeadershipLostError("the lease is over: another process may act by now, this one may not");
  };

/**
 * The client, which writes nothing once this process may not act any more, not even by sending a write again that the server had put off. A process that was stopped for a
 * while (by its node, a debugger, a long collection of garbage) goes on in the middle of its work, before the elector notices.
 */
export function leaderClient(client: KubeClient, check: LeaderCheck): KubeClient {
  const checked = <O extends CallOptions>(o: O): O => ({ ...o, beforeSending: check });
  return {
    get: (ref, o) => client.get(ref, o),
    list: (kind, namespace, o) => client.list(kind, namespace, o),
    watch: (kind, o) => client.watch(kind, o),
    apply: (object, o = {}) => client.apply(object, checked(o)),
    create: (object, o = {}) => client.create(object, checked(o)),
    replace: (object, o = {}) => client.replace(object, checked(o)),
    patch: (ref, mergePatch, o = {}) => client.patch(ref, mergePatch, checked(o)),
    delete: (ref, o = {}) => client.delete(ref, checked(o)),
    requestToken: (account, o) => client.requestToken(account, checked(o)),
  };
}

/** What Kubernetes writes into tokens of service accounts, as far as it is read here. */
const claims = z.object({
  "kubernetes.io": z.object({
    namespace: z.string(),
    serviceaccount: z.object({ name: z.string(), uid: z.string() }),
  }),
});

/**
 * The service account that this process shows itself as: when it is deleted, as by an uninstall, no process can hold a Lease any more, and the cluster removes it.
 * The token says who that is, so that no right is needed to find it out.
 *
 * @param authorization header of this process's requests
 * @param namespace of the Lease; an account of another one cannot own it
 * @returns undefined where the process shows itself otherwise
 */
export function leaseOwner(authorization: string | undefined, namespace: string): OwnerReference | undefined {
  const payload = /^Bearer [^.]+\.([^.]+)\.[^.]*$/.exec(authorization ?? "")?.[1];
  if (payload === undefined) return undefined;
  const found = claims.safeParse(jsonIn(Buffer.from(payload, "base64url").toString("utf8"))).data?.["kubernetes.io"];
  if (found?.namespace !== namespace) return undefined;
  const { kind } = KINDS.ServiceAccount;
  return { apiVersion: apiVersionOf(KINDS.ServiceAccount), kind, ...found.serviceaccount };
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // Some other kind of token.
    return undefined;
  }
}
