import { isDeepStrictEqual } from "node:util";
import { EdgeType, edgeClientPb, encodeControl } from "@sallyport/wire";
import type { Access, IdentityView } from "../../access/ports.ts";
import type { SdkChannel } from "../sdk-channel.ts";
import { changesBetween, postureState, snapshotOf, statesLapseAt } from "./service-changes.ts";

interface Subscription {
  isActive: boolean;
  /** What the SDK has been told; undefined: nothing yet. */
  sent: IdentityView | undefined;
  seq: bigint;
  /** The states have to be told even if they are as before. */
  owesStates: boolean;
  /** It is told later, in one set, what has changed until then. */
  isWaiting: boolean;
  /** By the clock of `performance.now()`. */
  toldAt: number;
}

/** Between two sets for one channel, whatever changes and however often its SDK asks. */
export const MIN_PAUSE_MS = 100;

/**
 * SDKs that are told of their services, policies and posture instead of asking a controller for them (docs/protocol/edge.md, "Service
 * subscriptions"). What was sent is compared with what is now, so that any number of changes is one set.
 */
export class ServiceSubscriptions {
  readonly #access: Access;
  readonly #dueBy: (sdk: SdkChannel, at: number | undefined) => void;
  readonly #due: (sdk: SdkChannel) => void;
  readonly #channels = new Map<SdkChannel, Subscription>();

  /**
   * @param o.dueBy is told when the states of a channel come to change by time alone: it has to be refreshed then; `due`: that the wait of a
   * channel is over: to be refreshed in its turn, since very many end together
   */
  constructor(
    access: Access,
    o: { dueBy: (sdk: SdkChannel, at: number | undefined) => void; due: (sdk: SdkChannel) => void },
  ) {
    this.#access = access;
    this.#dueBy = o.dueBy;
    this.#due = o.due;
  }

  /** Subscribing again starts again: the SDK has lost something. */
  subscribe(sdk: SdkChannel): void {
    if (sdk.session.kind === "opaque") return;
    const subscription = this.#channels.getOrInsertComputed(sdk, () => ({
      ...{ isActive: true, sent: undefined, seq: 0n, owesStates: true, isWaiting: false },
      toldAt: Number.NEGATIVE_INFINITY,
    }));
    subscription.isActive = true;
    subscription.sent = undefined;
    subscription.owesStates = true;
    this.refresh(sdk);
  }

  /** How far it was told is kept, and so is when: numbers never start again, and asking in turns brings no more answers. */
  unsubscribe(sdk: SdkChannel): void {
    const subscription = this.#channels.get(sdk);
    if (subscription !== undefined) subscription.isActive = false;
  }

  /** The channel is gone. */
  remove(sdk: SdkChannel): void {
    this.#channels.delete(sdk);
  }

  /** The SDK asks for the states of its posture. */
  resync(sdk: SdkChannel): void {
    this.refresh(sdk, { owesStates: true });
  }

  /** Tells a subscribed SDK what has changed. */
  refresh(sdk: SdkChannel, { owesStates = false } = {}): void {
    const subscription = this.#channels.get(sdk);
    if (subscription?.isActive !== true || sdk.channel.isClosed) return;
    if (owesStates) subscription.owesStates = true;
    if (subscription.isWaiting) return;
    const pauseMs = subscription.toldAt + MIN_PAUSE_MS - performance.now();
    const resume = (): void => {
      subscription.isWaiting = false;
      if (this.#channels.has(sdk)) this.#due(sdk);
    };
    if (pauseMs > 0) {
      subscription.isWaiting = true;
      setTimeout(resume, pauseMs).unref();
    } else if (sdk.channel.isFull) {
      subscription.isWaiting = true;
      sdk.channel.onDrain(resume);
    } else {
      const { identityId, id } = sdk.session;
      const view = this.#access.view(identityId, id);
      subscription.toldAt = performance.now();
      this.#tell(sdk, subscription, view);
      this.#dueBy(sdk, statesLapseAt(view));
    }
  }

  #tell(sdk: SdkChannel, subscription: Subscription, view: IdentityView): void {
    const { sent } = subscription;
    const changes = sent === undefined ? snapshotOf(view) : changesBetween(sent, view);
    // In one order on one connection: a set that overtakes another is a gap.
    const via = sdk.outputFor(0)?.underlay;
    if (changes !== undefined) {
      // An SDK takes changes with a greater index only. What changed without one, or in another model, is told as a whole.
      const isNext = sent === undefined || view.index > sent.index;
      const set = isNext ? changes : snapshotOf(view);
      const body = encodeControl(edgeClientPb.ServiceChangeSetSchema, set);
      sdk.send({ contentType: EdgeType.ServiceChangeSet, body }, via);
    }
    const isSame = sent !== undefined && hasSameStates(sent, view);
    // The index of the next set's predecessor is that of the last set, whatever else has moved the model on.
    subscription.sent = changes === undefined && sent !== undefined ? { ...view, index: sent.index } : view;
    if (isSame && !subscription.owesStates) return;
    subscription.owesStates = false;
    subscription.seq += 1n;
    const states = postureState(view, subscription.seq, Date.now());
    const body = encodeControl(edgeClientPb.PostureStateChangeSchema, states);
    sdk.send({ contentType: EdgeType.PostureStateChange, body }, via);
  }
}

function hasSameStates(a: IdentityView, b: IdentityView): boolean {
  return isDeepStrictEqual(a.checkStates, b.checkStates) && isDeepStrictEqual(a.policyStates, b.policyStates);
}
