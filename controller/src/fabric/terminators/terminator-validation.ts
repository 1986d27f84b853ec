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
const PAGE = 500;
/** Terminators per request. */
const REQUEST_BATCH = 500;

/** One router's terminators that are still to be checked, and the request under way. */
interface ValidationQueue {
  /** `since`: asked about only when this is some time ago. */
  readonly terminators: Map<string, { readonly terminator: TerminatorRecord; readonly since: number }>;
  asked?: { readonly at: number; readonly markers: Map<string, bigint> };
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
    this.#queues.set(router, { terminators: new Map() });
    router.channel.onClose(() => this.#queues.delete(router));
    const { ValidateTerminatorsV2ResponseSchema } = ctrlPb;
    onMessage(router, ControlType.ValidateTerminatorsV2Response, ValidateTerminatorsV2ResponseSchema, (body) => {
      this.#answered(router, body).catch((err: unknown) =>
        this.#parts.log.error({ routerId: router.id, err }, "terminators found invalid could not be deleted"),
      );
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
      afterId = page.length < PAGE ? undefined : page.at(-1)?.id;
    }
    this.#ask(router, this.#parts.now());
  }

  removed(terminatorId: string): void {
    for (const queue of this.#queues.values()) queue.terminators.delete(terminatorId);
  }

  /** Looks at every queue; to be called every few seconds. */
  tick(now: number): void {
    for (const router of this.#queues.keys()) this.#ask(router, now);
  }

  /** Queues a terminator. */
  created(router: RouterConnection, terminator: TerminatorRecord): void {
    const queue = this.#queues.get(router);
    // An answer under way is about one of the same id that is gone.
    queue?.asked?.markers.delete(terminator.id);
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
    const due = [...queue.terminators.values()].filter((q) => now - q.since >= MIN_AGE_MS).slice(0, REQUEST_BATCH);
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

  async #answered(router: RouterConnection, body: ctrlPb.ValidateTerminatorsV2Response): Promise<void> {
    const queue = this.#queues.get(router);
    if (queue?.asked === undefined) return;
    const { markers } = queue.asked;
    delete queue.asked;
    const invalid: TerminatorRecord[] = [];
    for (const [id, state] of Object.entries(body.states)) {
      const marker = markers.get(id);
      // Routers that know nothing of markers send 0.
      if (marker === undefined || (state.marker !== marker && state.marker !== 0n)) continue;
      markers.delete(id);
      const queued = queue.terminators.get(id);
      queue.terminators.delete(id);
      if (!state.valid && queued !== undefined) invalid.push(queued.terminator);
    }
    // What the router left out is asked again as if it were new: a router that answers nothing must not be asked without end.
    const now = this.#parts.now();
    for (const id of markers.keys()) {
      const left = queue.terminators.get(id);
      if (left !== undefined) queue.terminators.set(id, { ...left, since: now });
    }
    if (invalid.length > 0) {
      const deleted = new Set(await this.#parts.model.deleteUnchanged(router.id, invalid));
      for (const id of deleted) this.#parts.costs.forget(id);
      await this.#again(
        router,
        invalid.filter(({ id }) => !deleted.has(id)),
      );
      const fields = { routerId: router.id, terminatorIds: [...deleted] };
      this.#parts.log.info(fields, "terminators their router does not know were deleted");
    }
    this.#ask(router, this.#parts.now());
  }
}
