import { Pool } from "@sallyport/async";
import {
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Logger,
  RouterCapability,
} from "@sallyport/wire";
import type { FabricModel, RouterConfigs } from "../ports.ts";
import { MAX_FIELDS_OF_REPORTS, onMessage } from "../routers/inbound.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import { type DataModelSource, MAX_WHOLE_STATE } from "./data-model-source.ts";

/** How long a subscription may be, in seconds. */
const MIN_SUBSCRIPTION_S = 10;
const MAX_SUBSCRIPTION_S = 360;
/** OpenZiti's routers check every 30 s whether their subscription has run out, and renew it only then. The controller sends them changes until the renewal arrives. */
const GRACE_MS = 45_000;
/** Whole states on their way at once: each is a copy of its own in its channel's output. */
const STATES_AT_ONCE = 4;
const STATES_WAITING = 10_000;
/** A router that reads none of half a MiB for so long is disconnected. */
const WRITE_TIMEOUT_MS = 10_000;
/** One that takes longer for a whole state, too: others wait for their turn. */
const STATE_TIMEOUT_MS = 5 * 60_000;
/** A router gets no second whole state sooner: repeated requests of one router must not slow down the others. */
const STATE_PAUSE_MS = 5_000;
const INDEX_PERIOD_MS = 30_000;
const VALIDATION_TIMEOUT_MS = 60_000;
/** Characters of the id that a router gives its subscription. */
const MAX_SUBSCRIPTION_ID = 128;
const TOO_LARGE =
  "the data model is too large for one message; until all parts have come, the router lacks what they hold";

/** How a router's model differs from the controller's. */
interface DataModelDifference {
  readonly entityType: string;
  readonly entityId: string;
  readonly diffType: string;
  readonly detail: string;
}

export interface DataModelValidation {
  /** Entities by type: of the controller's model, and of the router's. */
  readonly expectedCounts: Readonly<Record<string, number>>;
  readonly actualCounts: Readonly<Record<string, number>>;
  readonly differences: readonly DataModelDifference[];
}

interface DataModelFeedParts {
  readonly source: DataModelSource;
  readonly model: Pick<FabricModel, "routerConfigs">;
  readonly log: Logger;
}

interface Subscription {
  /** The router's name for it, which all of its messages carry; absent: a router of OpenZiti 1.6. */
  readonly id: string | undefined;
  /** What the router is told of itself has to be read again. */
  isSelfDue: boolean;
  /** What it was told last. */
  self: string | undefined;
  /** What the router has of the timeline `of`; undefined: nothing that changes could be added to. */
  position: bigint | undefined;
  of: string;
  /** Its index is ahead of the controller's: its next whole state goes out under a timeline of its own. */
  isAhead: boolean;
  /** By the steady clock: while the system clock jumps, revocations have to go on reaching the router. */
  expiresAt: number;
  announced: bigint;
  announcedAt: number;
  isSending: boolean;
}

/**
 * Gives routers that subscribe the model of the network: what they lack, and then every change. Each router is sent to as fast as it reads; one that is too
 * slow for the kept changes gets the whole state again. Source: docs/protocol/data-model.md.
 */
export class DataModelFeed {
  readonly #parts: DataModelFeedParts;
  readonly #subscriptions = new Map<RouterConnection, Subscription>();
  readonly #states: Pool;
  /** When each router got its last whole state, while it subscribes. */
  readonly #stateAt = new Map<string, number>();
  /** Routers whose whole state is wanted or on its way: each waits once, however often it subscribes. */
  readonly #queued = new Set<string>();
  readonly #stop: () => void;

  constructor(parts: DataModelFeedParts) {
    this.#parts = parts;
    this.#states = new Pool({
      concurrency: STATES_AT_ONCE,
      capacity: STATES_WAITING,
      onError: (err) => parts.log.error({ err }, "a router's data model could not be sent"),
    });
    this.#stop = parts.source.onChange(() => {
      for (const router of this.#subscriptions.keys()) this.#send(router);
    });
  }

  attach(router: RouterConnection): void {
    if (router.record.kind !== "edge") return;
    onMessage(router, EdgeCtrlType.SubscribeToDataModel, edgeCtrlPb.SubscribeToDataModelRequestSchema, (body) =>
      this.#subscribe(router, body),
    );
    router.channel.onClose(() => this.#end(router));
  }

  /** Ends what was not renewed and tells routers the index; to be called every few seconds. @param now by the steady clock */
  tick(now: number): void {
    for (const [router, subscription] of this.#subscriptions) {
      if (now >= subscription.expiresAt) {
        this.#parts.log.warn({ routerId: router.id }, "the router has not renewed its subscription to the data model");
        this.#end(router);
        continue;
      }
      this.#send(router);
      const { index } = this.#parts.source;
      // A router whose state is still on its way would take that for lost.
      if (subscription.position === undefined) continue;
      if (index <= subscription.announced || now - subscription.announcedAt < INDEX_PERIOD_MS) continue;
      subscription.announced = index;
      subscription.announcedAt = now;
      const headers = new Headers().setU64(EdgeCtrlHeader.DataModelIndex, index);
      router.send({ contentType: EdgeCtrlType.CurrentIndex, headers });
    }
  }

  /** What is stored of a router, or of any, may be another: those concerned are told of themselves again. */
  routerChanged(routerId?: string): void {
    for (const [router, subscription] of this.#subscriptions) {
      if (routerId !== undefined && router.id !== routerId) continue;
      subscription.isSelfDue = true;
      this.#send(router);
    }
  }

  /** False for a router that works by sessions alone. */
  isFollowedBy(router: RouterConnection): boolean {
    return this.#subscriptions.has(router);
  }

  /**
   * Has a router compare its model with the controller's. `fix`: it takes over what differs.
   * @throws RequestTimeoutError, ChannelClosedError, and what the store throws
   */
  async validate(
    router: RouterConnection,
    fix: boolean,
    timeoutMs = VALIDATION_TIMEOUT_MS,
  ): Promise<DataModelValidation> {
    const { source } = this.#parts;
    source.acquire();
    try {
      await source.ready();
      const body = Buffer.concat([await source.validationRequest(fix), await this.#selfToCompare(router)]);
      const request = { contentType: EdgeCtrlType.ValidateDataStateRequest, body };
      const answer = await router.channel.request(request, { timeoutMs });
      const { origEntityCounts, copyEntityCounts, diffs } = decodeControl(
        edgeCtrlPb.RouterDataModelValidateResponseSchema,
        answer.body,
        MAX_FIELDS_OF_REPORTS,
      );
      return {
        expectedCounts: origEntityCounts,
        actualCounts: copyEntityCounts,
        differences: diffs.map(({ entityType, entityId, diffType, detail }) => ({
          ...{ entityType, entityId, diffType, detail },
        })),
      };
    } finally {
      source.release();
    }
  }

  close(): void {
    this.#stop();
    this.#states.close();
    for (const router of [...this.#subscriptions.keys()]) this.#end(router);
  }

  #subscribe(router: RouterConnection, body: edgeCtrlPb.SubscribeToDataModelRequest): void {
    const seconds = Math.min(MAX_SUBSCRIPTION_S, Math.max(MIN_SUBSCRIPTION_S, body.subscriptionDurationSeconds));
    const expiresAt = performance.now() + seconds * 1000 + GRACE_MS;
    const known = this.#subscriptions.get(router);
    const id = body.subscriptionId === "" ? undefined : body.subscriptionId;
    if (id !== undefined && id.length > MAX_SUBSCRIPTION_ID) {
      const fields = { routerId: router.id, characters: id.length, limit: MAX_SUBSCRIPTION_ID };
      this.#parts.log.warn(fields, "the id of the router's subscription is too long; it gets no data model");
      return;
    }
    if (known !== undefined && body.renew && known.id === id) {
      known.expiresAt = expiresAt;
      return;
    }
    const subscription: Subscription = {
      ...{ id, isSelfDue: true, self: undefined, position: undefined, of: "", isAhead: false, expiresAt },
      ...{ announced: 0n, announcedAt: performance.now(), isSending: false },
    };
    this.#subscriptions.set(router, subscription);
    const { source } = this.#parts;
    if (known === undefined) source.acquire();
    source
      .ready()
      .then(() => source.reach(body.currentIndex))
      .then(() => {
        if (this.#subscriptions.get(router) !== subscription) return;
        this.#place(router, subscription, body);
        this.#send(router);
      })
      .catch((err: unknown) => {
        // It goes on being subscribed: the next tick tries again, with the whole state.
        this.#parts.log.error({ routerId: router.id, err }, "the data model for a router could not be loaded");
      });
  }

  /** Where the router stands: what it says counts only on the controller's timeline. */
  #place(router: RouterConnection, subscription: Subscription, body: edgeCtrlPb.SubscribeToDataModelRequest): void {
    const { source, log } = this.#parts;
    const { currentIndex, timelineId } = body;
    if (currentIndex === 0n || !source.continues(timelineId, currentIndex)) return;
    if (currentIndex <= source.index) {
      subscription.position = currentIndex;
      subscription.of = source.timeline;
      return;
    }
    // An older database was put in place, or the router is mistaken: it would ignore every index up to its own.
    subscription.isAhead = true;
    const indexes = { routerIndex: currentIndex.toString(), index: source.index.toString() };
    log.warn(
      { routerId: router.id, ...indexes },
      "the router's data model is ahead of the controller's; it gets a new one",
    );
  }

  #end(router: RouterConnection): void {
    if (this.#subscriptions.delete(router)) this.#parts.source.release();
  }

  #send(router: RouterConnection): void {
    const subscription = this.#subscriptions.get(router);
    if (subscription === undefined || subscription.isSending) return;
    subscription.isSending = true;
    this.#catchUp(router, subscription)
      .catch((err: unknown) =>
        this.#parts.log.error(
          { routerId: router.id, err },
          "changes of the data model could not be sent; trying again",
        ),
      )
      .finally(() => {
        subscription.isSending = false;
      });
  }

  async #catchUp(router: RouterConnection, subscription: Subscription): Promise<void> {
    const { source } = this.#parts;
    await source.ready();
    const isCurrent = () => this.#subscriptions.get(router) === subscription && !router.channel.isClosed;
    while (isCurrent()) {
      // The network began a new life: an index of the former one says nothing.
      if (subscription.of !== source.timeline) subscription.position = undefined;
      const changes = subscription.position === undefined ? undefined : source.changesAfter(subscription.position);
      if (changes === undefined) {
        if (!(await this.#sendState(router, subscription, isCurrent))) return;
        continue;
      }
      if (changes.length === 0) {
        await this.#sendSelf(router, subscription, isCurrent);
        return;
      }
      for (const { index, body } of changes) {
        if (!isCurrent() || !sendFor(router, subscription, EdgeCtrlType.DataStateChangeSet, body)) return;
        subscription.position = index;
        if (router.channel.isFull) await router.written(WRITE_TIMEOUT_MS);
      }
    }
  }

  /** Sends the whole state when it is this router's turn; false when it was not sent. */
  async #sendState(router: RouterConnection, subscription: Subscription, isCurrent: () => boolean): Promise<boolean> {
    const last = this.#stateAt.get(router.id) ?? Number.NEGATIVE_INFINITY;
    // The next tick tries again.
    if (performance.now() - last < STATE_PAUSE_MS || this.#queued.has(router.id)) return false;
    this.#queued.add(router.id);
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    const isTaken = this.#states.offer(async () => {
      try {
        if (!isCurrent()) return resolve(false);
        const { source } = this.#parts;
        const own = subscription.isAhead ? `${source.timeline}/${router.id}` : undefined;
        // This project's routers put a state in force when all of its parts are there, however large it is.
        const isWhole = router.isOfGeneration2;
        const { index, timeline, body, rest } = await source.state({ timeline: own, isWhole });
        if (!isCurrent() || !sendFor(router, subscription, EdgeCtrlType.DataState, body)) return resolve(false);
        this.#stateAt.set(router.id, performance.now());
        // A new state is in force before its parts have come: until then the router knows less than it should.
        if (isWhole && rest.length > 0)
          this.#parts.log.warn({ routerId: router.id, limit: MAX_WHOLE_STATE }, TOO_LARGE);
        if (!(await this.#sendRest(router, subscription, rest, isCurrent))) return resolve(false);
        // A new model knows nothing of the router itself.
        subscription.self = undefined;
        subscription.isSelfDue = true;
        subscription.position = index;
        subscription.of = timeline;
        subscription.announced = index;
        const bytes = rest.reduce((sum, part) => sum + part.length, body.length);
        const fields = { routerId: router.id, index: index.toString(), bytes };
        this.#parts.log.info(fields, "the whole data model was sent to a router");
        resolve(true);
      } catch (error) {
        reject(error);
      }
    });
    if (!isTaken) resolve(false);
    return promise.finally(() => this.#queued.delete(router.id));
  }

  /** The parts of a large state, as fast as the router reads; false when they did not all go out. */
  async #sendRest(
    router: RouterConnection,
    subscription: Subscription,
    rest: readonly Buffer[],
    isCurrent: () => boolean,
  ): Promise<boolean> {
    const since = performance.now();
    for (const body of rest) {
      await router.written(WRITE_TIMEOUT_MS);
      if (!isCurrent()) return false;
      const isTooSlow = router.channel.isFull || performance.now() - since > STATE_TIMEOUT_MS;
      if (isTooSlow) router.channel.close(new Error(`router ${router.id} does not read its data model`));
      if (!sendFor(router, subscription, EdgeCtrlType.DataStateChangeSet, body)) return false;
    }
    await router.written(WRITE_TIMEOUT_MS);
    return true;
  }

  /** What a router keeps of itself, as a continuation of the request to compare. */
  async #selfToCompare(router: RouterConnection): Promise<Uint8Array> {
    const self = router.can(RouterCapability.DataModel) ? await this.#parts.model.routerConfigs(router.id) : undefined;
    const events = self === undefined ? [] : eventsOfRouter(self);
    return encodeControl(
      edgeCtrlPb.RouterDataModelValidateRequestSchema,
      events.length === 0 ? {} : { state: { events } },
    );
  }

  /** Tells a router that keeps it of itself, behind everything that it may refer to. Others never see this kind of event. */
  async #sendSelf(router: RouterConnection, subscription: Subscription, isCurrent: () => boolean): Promise<void> {
    if (!subscription.isSelfDue || !router.can(RouterCapability.DataModel)) return;
    subscription.isSelfDue = false;
    try {
      const self = await this.#parts.model.routerConfigs(router.id);
      if (self === undefined || !isCurrent()) return;
      const { index } = this.#parts.source;
      const told = JSON.stringify(self);
      if (subscription.self === told) return;
      const set = { index, isSynthetic: true, changes: eventsOfRouter(self) };
      const body = encodeControl(edgeCtrlPb.DataState_ChangeSetSchema, set);
      if (sendFor(router, subscription, EdgeCtrlType.DataStateChangeSet, body)) subscription.self = told;
    } catch (error) {
      subscription.isSelfDue = true;
      throw error;
    }
  }
}

/** Sends what belongs to a subscription, which may be over at the router, by its id. */
function sendFor(router: RouterConnection, { id }: Subscription, contentType: number, body: Buffer): boolean {
  if (id === undefined) return router.send({ contentType, body });
  return router.send({ contentType, body, headers: new Headers().setString(EdgeCtrlHeader.SubscriptionId, id) });
}

/** A router drops a config that it is told no more: each comes with what names it. */
function eventsOfRouter({ id, name, fingerprint, configs, isDisabled: disabled }: RouterConfigs) {
  const value = { id, name, fingerprint, configs: configs.map((config) => config.id), disabled };
  return [
    ...configs.map(({ data: dataJson, ...config }) => {
      return { isSynthetic: true, model: { case: "config" as const, value: { ...config, dataJson } } };
    }),
    { isSynthetic: true, model: { case: "router" as const, value } },
  ];
}
