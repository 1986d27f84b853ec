import { ControlType, ctrlPb, encodeControl, type Logger } from "@sallyport/wire";
import type { DynamicCosts } from "../circuits/costs.ts";
import type { Mesh } from "../links/mesh.ts";
import type { FabricModel, TerminatorRecord } from "../ports.ts";
import type { FabricReplicas } from "../replicas.ts";
import { onMessage } from "../routers/inbound.ts";
import type { RouterConnection } from "../routers/router-connection.ts";

/** A terminator younger than this is not asked about: its router may still be setting it up. */
const MIN_AGE_MS = 5_000;
/** One younger than this was created a moment ago: its router is told so. */
const YOUNG_MS = 30_000;
const ANSWER_TIMEOUT_MS = 3 * 60_000;
/** Terminators that are read together. Larger pages are faster in sum, but hold up requests. */
const PAGE = 500;
/** Terminators per request. */
const REQUEST_BATCH = 500;
/** Terminators that are deleted together: controllers handle what one statement deletes at once. */
const DELETE_BATCH = 1_000;
/** Deleted terminators that a line of the log names. */
const MAX_LOGGED = 100;

/** One router's terminators that are still to be checked, and the request under way. */
interface ValidationQueue {
  /** `since`: asked about only when this is some time ago. */
  readonly terminators: Map<string, { readonly terminator: TerminatorRecord; readonly since: number }>;
  asked?: { readonly at: number; readonly markers: Map<string, bigint> };
  /** Those that the router does not know, until they are deleted. */
  readonly invalid: Map<string, TerminatorRecord>;
  isDeleting: boolean;
}

interface TerminatorValidationParts {
  readonly mesh: Mesh;
  readonly model: Pick<FabricModel, "terminatorsOfRouter" | "findTerminator" | "deleteUnchanged">;
  /** One controller asks for all terminators of a router: the leader. */
  readonly replicas: Pick<FabricReplicas, "isLeader" | "onLook">;
  readonly costs: DynamicCosts;
  /** The time by which rows name when they were made, in milliseconds. */
  readonly now: () => number;
  readonly log: Logger;
}

/**
 * Asks routers whether the terminators stored for them really exist there, and deletes those that do not. All of a router's terminators are checked when it
 * connects, or when this controller becomes the leader, a new one some seconds after it was created. One request per router at a time. Source: docs/protocol/fabric.md, "Terminator validation".
 */
export class TerminatorValidation {
  readonly #parts: TerminatorValidationParts;
  readonly #queues = new Map<RouterConnection, ValidationQueue>();
  readonly #stop: () => void;
  #marker = 0n;
  #isLeader: boolean;

  constructor(parts: TerminatorValidationParts) {
    this.#parts = parts;
    const { replicas } = parts;
    this.#isLeader = replicas.isLeader;
    this.#stop = replicas.onLook(() => {
      const hasBegun = replicas.isLeader && !this.#isLeader;
      this.#isLeader = replicas.isLeader;
      if (hasBegun) for (const router of parts.mesh.routers()) this.connected(router);
    });
  }

  /** What is still to be checked, for people who look into the controller. `askedAt`: since when an answer is awaited. */
  pending(): { routerId: string; terminators: string[]; askedAt?: string }[] {
    return [...this.#queues]
      .filter(([, { terminators, asked }]) => terminators.size > 0 || asked !== undefined)
      .map(([router, { terminators, asked }]) => ({
        routerId: router.id,
        terminators: [...terminators.keys()],
        ...(asked && { askedAt: new Date(asked.at).toISOString() }),
      }));
  }

  attach(router: RouterConnection): void {
    this.#queues.set(router, { terminators: new Map(), invalid: new Map(), isDeleting: false });
    router.channel.onClose(() => this.#queues.delete(router));
    const { ValidateTerminatorsV2ResponseSchema } = ctrlPb;
    onMessage(router, ControlType.ValidateTerminatorsV2Response, ValidateTerminatorsV2ResponseSchema, (body) => {
      this.#answered(router, body);
      this.#deleteInvalid(router);
    });
  }

  /** Queues everything the router hosts according to the store; only the leader does. */
  connected(router: RouterConnection): void {
    if (!this.#parts.replicas.isLeader) return;
    this.#queueAll(router).catch((err: unknown) =>
      this.#parts.log.error({ routerId: router.id, err }, "looking up the router's terminators failed"),
    );
  }

  close(): void {
    this.#stop();
  }

  async #queueAll(router: RouterConnection): Promise<void> {
    for (let afterId: string | undefined = ""; afterId !== undefined; ) {
      const page: readonly TerminatorRecord[] = await this.#parts.model.terminatorsOfRouter(router.id, afterId, PAGE);
      for (const terminator of page) this.created(router, terminator);
      this.#ask(router, this.#parts.now());
      afterId = page.length < PAGE ? undefined : page.at(-1)?.id;
    }
  }

  removed(terminatorId: string): void {
    for (const { terminators, invalid } of this.#queues.values()) {
      terminators.delete(terminatorId);
      invalid.delete(terminatorId);
    }
  }

  /** Looks at every queue; to be called every few seconds. */
  tick(now: number): void {
    for (const router of this.#queues.keys()) {
      this.#ask(router, now);
      this.#deleteInvalid(router, 1);
    }
  }

  /** Queues a terminator. */
  created(router: RouterConnection, terminator: TerminatorRecord): void {
    const queue = this.#queues.get(router);
    // An answer under way is about one of the same id that is gone.
    queue?.asked?.markers.delete(terminator.id);
    queue?.invalid.delete(terminator.id);
    queue?.terminators.set(terminator.id, { terminator, since: terminator.createdAt.getTime() });
  }

  /** What was changed since it was asked about is asked about again, if it is there. */
  async #again(router: RouterConnection, changed: readonly TerminatorRecord[]): Promise<void> {
    for (const { id } of changed) {
      const terminator = await this.#parts.model.findTerminator(id);
      const queue = this.#queues.get(router);
      if (terminator?.routerId !== router.id || queue === undefined) continue;
      queue.terminators.set(id, { terminator, since: this.#parts.now() });
    }
  }

  #ask(router: RouterConnection, now: number): void {
    const queue = this.#queues.get(router);
    if (queue === undefined) return;
    if (queue.asked !== undefined && now - queue.asked.at < ANSWER_TIMEOUT_MS) return;
    delete queue.asked;
    const due: { readonly terminator: TerminatorRecord }[] = [];
    for (const each of queue.terminators.values()) {
      if (due.length === REQUEST_BATCH) break;
      if (now - each.since >= MIN_AGE_MS) due.push(each);
    }
    if (due.length === 0) return;
    const terminators = due.map(({ terminator: { id, binding, address } }) => {
      this.#marker += 1n;
      return { id, binding, address, marker: this.#marker };
    });
    const markers = new Map(terminators.map(({ id, marker }) => [id, marker]));
    const postCreate = due.every(({ terminator }) => now - terminator.createdAt.getTime() < YOUNG_MS);
    const request = { terminators, fixInvalid: true, postCreate };
    const body = encodeControl(ctrlPb.ValidateTerminatorsV2RequestSchema, request);
    if (router.send({ contentType: ControlType.ValidateTerminatorsV2Request, body }))
      queue.asked = { at: now, markers };
  }

  #answered(router: RouterConnection, body: ctrlPb.ValidateTerminatorsV2Response): void {
    const queue = this.#queues.get(router);
    if (queue?.asked === undefined) return;
    const { markers } = queue.asked;
    delete queue.asked;
    for (const [id, state] of Object.entries(body.states)) {
      const marker = markers.get(id);
      // Routers that know nothing of markers send 0.
      if (marker === undefined || (state.marker !== marker && state.marker !== 0n)) continue;
      markers.delete(id);
      const queued = queue.terminators.get(id);
      queue.terminators.delete(id);
      if (!state.valid && queued !== undefined) queue.invalid.set(id, queued.terminator);
    }
    // What the router left out is asked again as if it were new: a router that answers nothing must not be asked without end.
    const now = this.#parts.now();
    for (const id of markers.keys()) {
      const left = queue.terminators.get(id);
      if (left !== undefined) queue.terminators.set(id, { ...left, since: now });
    }
    // The router judges the next ones while these are deleted.
    this.#ask(router, now);
  }

  /**
   * Deletes what the router does not know: one statement at a time, with all that its answers have named meanwhile. While an answer is awaited, it waits until
   * there are `enough`.
   */
  #deleteInvalid(router: RouterConnection, enough = DELETE_BATCH): void {
    const queue = this.#queues.get(router);
    if (queue === undefined || queue.isDeleting) return;
    this.#deleteQueued(router, queue, enough).catch((err: unknown) =>
      this.#parts.log.error({ routerId: router.id, err }, "terminators found invalid could not be deleted"),
    );
  }

  /** What could not be deleted is asked about again. */
  async #deleteQueued(router: RouterConnection, queue: ValidationQueue, enough: number): Promise<void> {
    queue.isDeleting = true;
    let batch: readonly TerminatorRecord[] = [];
    let least = enough;
    try {
      // A router that connects again may have created them again.
      while (this.#queues.get(router) === queue) {
        if (queue.invalid.size === 0 || (queue.asked !== undefined && queue.invalid.size < least)) return;
        batch = [...queue.invalid.values()].slice(0, DELETE_BATCH);
        for (const { id } of batch) queue.invalid.delete(id);
        await this.#delete(router, batch);
        batch = [];
        least = DELETE_BATCH;
      }
    } catch (error) {
      const since = this.#parts.now();
      for (const terminator of [...batch, ...queue.invalid.values()]) {
        if (!queue.terminators.has(terminator.id)) queue.terminators.set(terminator.id, { terminator, since });
      }
      queue.invalid.clear();
      throw error;
    } finally {
      queue.isDeleting = false;
    }
  }

  async #delete(router: RouterConnection, invalid: readonly TerminatorRecord[]): Promise<void> {
    const deleted = new Set(await this.#parts.model.deleteUnchanged(router.id, invalid));
    for (const id of deleted) this.#parts.costs.forget(id);
    await this.#again(
      router,
      invalid.filter(({ id }) => !deleted.has(id)),
    );
    const terminatorIds = [...deleted].slice(0, MAX_LOGGED);
    const fields = { routerId: router.id, count: deleted.size, terminatorIds };
    this.#parts.log.info(fields, "terminators their router does not know were deleted");
  }
}
