import { isDeepStrictEqual } from "node:util";
import { EdgeType, edgeClientPb, encodeControl } from "@sallyport/wire";
import type { Access, IdentityView } from "../../access/ports.ts";
import type { SdkChannel } from "../sdk-channel.ts";
import { changesBetween, postureState, snapshotOf, statesLapseAt } from "./service-changes.ts";

interface Subscription {
  /** What the SDK has been told; undefined: nothing yet. */
  sent: IdentityView | undefined;
  seq: bigint;
  /** The states have to be told even if they are as before. */
  owesStates: boolean;
  /** The output is full: what has changed meanwhile is told in one set when it has room. */
  isWaiting: boolean;
}

/**
 * SDKs that are told of their services, policies and posture instead of asking a controller for them (docs/protocol/edge.md, "Service
 * subscriptions"). What was sent is compared with what is now, so that any number of changes is one set.
 */
export class ServiceSubscriptions {
  readonly #access: Access;
  readonly #channels = new Map<SdkChannel, Subscription>();

  constructor(access: Access) {
    this.#access = access;
  }

  /** Subscribing again starts again: the SDK has lost something. @returns as `refresh` */
  subscribe(sdk: SdkChannel): number | undefined {
    if (sdk.session.kind === "opaque") return undefined;
    const seq = this.#channels.get(sdk)?.seq ?? 0n;
    this.#channels.set(sdk, { sent: undefined, seq, owesStates: true, isWaiting: false });
    return this.refresh(sdk);
  }

  unsubscribe(sdk: SdkChannel): void {
    this.#channels.delete(sdk);
  }

  /** The SDK asks for the states of its posture. */
  resync(sdk: SdkChannel): void {
    this.refresh(sdk, { owesStates: true });
  }

  /**
   * Tells a subscribed SDK what has changed.
   *
   * @returns when the states come to change by time alone
   */
  refresh(sdk: SdkChannel, { owesStates = false, now = Date.now() } = {}): number | undefined {
    const subscription = this.#channels.get(sdk);
    if (subscription === undefined || sdk.channel.isClosed) return undefined;
    if (owesStates) subscription.owesStates = true;
    if (subscription.isWaiting) return undefined;
    if (sdk.channel.isFull) {
      subscription.isWaiting = true;
      sdk.channel.onDrain(() => {
        subscription.isWaiting = false;
        if (this.#channels.get(sdk) === subscription) this.refresh(sdk);
      });
      return undefined;
    }
    const { identityId, id } = sdk.session;
    const view = this.#access.view(identityId, id);
    this.#tell(sdk, subscription, view, now);
    return statesLapseAt(view);
  }

  #tell(sdk: SdkChannel, subscription: Subscription, view: IdentityView, now: number): void {
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
    const states = encodeControl(edgeClientPb.PostureStateChangeSchema, postureState(view, subscription.seq, now));
    sdk.send({ contentType: EdgeType.PostureStateChange, body: states }, via);
  }
}

function hasSameStates(a: IdentityView, b: IdentityView): boolean {
  return isDeepStrictEqual(a.checkStates, b.checkStates) && isDeepStrictEqual(a.policyStates, b.policyStates);
}
