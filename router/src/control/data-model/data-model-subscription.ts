import { randomUUID } from "node:crypto";
import { BinaryReader } from "@bufbuild/protobuf/wire";
import { errorText, Listeners, SerialQueue } from "@sallyport/async";
import {
  ControllerCapability,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Logger,
  type Message,
} from "@sallyport/wire";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { Controllers } from "../controllers/controllers.ts";
import { ChangeSetReader } from "./event-reader.ts";
import { compareModels, countEntities, encodeComparison } from "./model-comparison.ts";
import { applyChanges, modelOf, NetworkModel, type Touched } from "./network-model.ts";

export interface DataModelOptions {
  readonly controllers: Controllers;
  readonly log: Logger;
  /** For tests; the standard times are those of docs/protocol/data-model.md. */
  readonly times?: Partial<typeof times>;
}

const times = {
  /** Asked for, and renewed after a third of it. */
  subscriptionMs: 300_000,
  /** How long changes may be on their way when the controller names an index beyond the one here. */
  catchUpMs: 5_000,
};

/** Keys that a controller sends without a subscription. */
const MAX_KEYS = 100;

/**
 * Follows the data model of the network: subscribes to one controller that has it, to another when that one is lost,
 * and continues from its index. A new state is built beside the model in force and takes its place when all of it is here. The model is not kept over
 * a restart: any controller sends it again, and the router would act on an outdated one (docs/protocol/data-model.md, "Sallyport's router").
 */
export class DataModelSubscription {
  readonly #o: DataModelOptions;
  readonly #times: typeof times;
  readonly #listeners = new Listeners<[model: NetworkModel, touched: Touched]>();
  readonly #restarted = new Listeners();
  /** States and changes are taken one after the other, in slices of time. */
  readonly #work = new SerialQueue();
  /** Of controllers that the router is not subscribed to. */
  readonly #otherKeys = new Map<string, Map<string, edgeCtrlPb.DataState_PublicKey>>();
  #model = new NetworkModel();
  #hasModel = false;
  /** A state of which parts are missing. */
  #staged: NetworkModel | undefined;
  #controller: ControllerConnection | undefined;
  #subscriptionId = "";
  #isFollowing = false;
  #renewal: NodeJS.Timeout | undefined;
  #catchUp: NodeJS.Timeout | undefined;
  #isTold = false;
  readonly #more: Touched[] = [];

  constructor(options: DataModelOptions) {
    this.#o = options;
    this.#times = { ...times, ...options.times };
    const { controllers } = options;
    const inTurn = (take: (message: Message, controller: ControllerConnection) => Promise<void>) => {
      return (message: Message, controller: ControllerConnection): void => {
        this.#work
          .run(() => take(message, controller))
          .catch((error: unknown) => {
            options.log.error(
              { controllerId: controller.id, reason: errorText(error) },
              "the data model is unreadable",
            );
          });
      };
    };
    controllers.handle(
      EdgeCtrlType.DataState,
      inTurn((message, from) => this.#state(message, from)),
    );
    controllers.handle(
      EdgeCtrlType.DataStateChangeSet,
      inTurn((message, from) => this.#change(message, from)),
    );
    controllers.handle(
      EdgeCtrlType.CurrentIndex,
      inTurn((message, from) => this.#named(message, from)),
    );
    controllers.handle(
      EdgeCtrlType.ValidateDataStateRequest,
      inTurn((message, from) => this.#validate(message, from)),
    );
    controllers.onConnected(() => this.#choose());
    controllers.onHanging((controller) => {
      if (this.#controller === controller) this.#choose();
    });
    controllers.onDisconnected((controller) => {
      this.#otherKeys.delete(controller.id);
      if (this.#controller === controller) this.#leave();
      this.#choose();
    });
  }

  /** Subscribes, from now on. */
  follow(): void {
    this.#isFollowing = true;
    this.#choose();
  }

  get isFollowing(): boolean {
    return this.#isFollowing;
  }

  /** The controller subscribed to; undefined: none has a model to give. */
  get controller(): ControllerConnection | undefined {
    return this.#controller;
  }

  get model(): NetworkModel {
    return this.#model;
  }

  /** Whether a whole model was received. */
  get hasModel(): boolean {
    return this.#hasModel;
  }

  publicKey(kid: string): edgeCtrlPb.DataState_PublicKey | undefined {
    const others = this.#otherKeys.values().map((keys) => keys.get(kid));
    return this.#model.publicKeys.get(kid) ?? others.find((key) => key !== undefined);
  }

  /** The model has changed. Changes that arrive together are told once. */
  onChange(listener: (model: NetworkModel, touched: Touched) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** The controllers number their changes from the start again: a state came that follows on none before it. */
  onRestarted(listener: () => void): () => void {
    return this.#restarted.add(listener);
  }

  position(): { timeline: string; index: string } {
    const { timeline, index } = this.#model;
    return { timeline, index: index.toString() };
  }

  inspect(): object {
    return { ...this.position(), counts: countEntities(this.#model) };
  }

  close(): void {
    this.#isFollowing = false;
    this.#leave();
    this.#listeners.clear();
    this.#restarted.clear();
  }

  /** What changes are added to: the state that is still coming, or else the one in force. */
  get #newest(): NetworkModel {
    return this.#staged ?? this.#model;
  }

  /** Keeps the controller it has as long as that one is connected, and answers if another one does. */
  #choose(): void {
    if (!this.#isFollowing) return;
    const { controllers } = this.#o;
    const former = this.#controller;
    if (former !== undefined && !former.channel.isClosed && controllers.isResponsive(former)) return;
    const able = controllers.best((each) => each.has(ControllerCapability.RouterDataModel));
    if (former !== undefined) {
      if (!former.channel.isClosed && (able === undefined || !controllers.isResponsive(able))) return;
      this.#leave();
    }
    this.#controller = able;
    if (able === undefined) return;
    this.#subscriptionId = randomUUID();
    this.#subscribe(false);
    clearInterval(this.#renewal);
    this.#renewal = setInterval(() => this.#subscribe(true), this.#times.subscriptionMs / 3);
    this.#renewal.unref();
  }

  #leave(): void {
    this.#controller = undefined;
    this.#staged = undefined;
    clearInterval(this.#renewal);
    clearTimeout(this.#catchUp);
    this.#catchUp = undefined;
  }

  #subscribe(renew: boolean): void {
    const controller = this.#controller;
    if (controller === undefined) return;
    const { index, timeline } = this.#newest;
    const body = encodeControl(edgeCtrlPb.SubscribeToDataModelRequestSchema, {
      currentIndex: index,
      timelineId: timeline,
      subscriptionDurationSeconds: Math.ceil(this.#times.subscriptionMs / 1000),
      renew,
      subscriptionId: this.#subscriptionId,
    });
    this.#o.controllers.sendTo(controller.id, { contentType: EdgeCtrlType.SubscribeToDataModel, body });
  }

  /** Is it from the controller subscribed to, and for this subscription, if it names one? */
  #isOurs({ headers }: Message, controller: ControllerConnection): boolean {
    const named = headers.getString(EdgeCtrlHeader.SubscriptionId);
    return controller === this.#controller && (named === undefined || named === this.#subscriptionId);
  }

  async #state(message: Message, controller: ControllerConnection): Promise<void> {
    if (!this.#isOurs(message, controller)) return;
    const model = await modelOf(message.body);
    // The controller may have been lost meanwhile.
    if (!this.#isOurs(message, controller)) return;
    if (model.isComplete) this.#putInForce(model, controller);
    else this.#staged = model;
  }

  async #change(message: Message, controller: ControllerConnection): Promise<void> {
    const set = new ChangeSetReader(message.body);
    if (controller !== this.#controller && set.isSynthetic) return this.#takeOtherKeys(set, controller);
    if (!this.#isOurs(message, controller)) return;
    const model = this.#newest;
    const outcome = await applyChanges(model, set);
    if (outcome === "gap") this.#askForMissing(controller, set.index);
    if (outcome !== "taken") return;
    if (model === this.#model) this.#changed();
    else if (model === this.#staged && model.isComplete) this.#putInForce(model, controller);
  }

  #putInForce(model: NetworkModel, controller: ControllerConnection): void {
    const former = this.#model;
    const { index, timeline } = model;
    const isRestart = this.#hasModel && (index < former.index || timeline !== former.timeline);
    this.#staged = undefined;
    this.#model = model;
    this.#hasModel = true;
    if (isRestart) this.#restarted.emit();
    this.#o.log.info({ controllerId: controller.id, index: index.toString(), timeline }, "the data model was received");
    const touched = model.takeTouched();
    this.#changed({ identities: "all", sessions: touched.sessions, haveKeysChanged: true });
  }

  /** Controllers of a cluster send their keys to every router, subscribed or not. */
  #takeOtherKeys(set: ChangeSetReader, { id }: ControllerConnection): void {
    const keys = this.#otherKeys.getOrInsertComputed(id, () => new Map());
    for (const event of set.events()) {
      if (event.kind !== "entity" || event.model.case !== "publicKey") continue;
      const { value: key } = event.model;
      if (event.isGone) keys.delete(key.kid);
      else if (keys.size < MAX_KEYS) keys.set(key.kid, key);
    }
    this.#changed({ identities: new Set(), sessions: new Set(), haveKeysChanged: true });
  }

  /** The controller's index. One beyond that here with nothing on its way means that something was lost: ask from here on. */
  async #named(message: Message, controller: ControllerConnection): Promise<void> {
    const index = message.headers.getU64(EdgeCtrlHeader.DataModelIndex) ?? 0n;
    if (controller !== this.#controller || index <= this.#newest.index) return;
    this.#catchUp ??= setTimeout(() => {
      this.#catchUp = undefined;
      if (index > this.#newest.index) this.#askForMissing(controller, index);
    }, this.#times.catchUpMs).unref();
  }

  /** @param index that the controller has */
  #askForMissing(controller: ControllerConnection, index: bigint): void {
    const fields = { controllerId: controller.id, index: index.toString(), here: this.#newest.index.toString() };
    this.#o.log.warn(fields, "changes of the data model are missing; asking for them");
    this.#subscribe(false);
  }

  async #validate(message: Message, controller: ControllerConnection): Promise<void> {
    const { state, isFix } = validationOf(message.body);
    const expected = await modelOf(state);
    const comparison = await compareModels(expected, this.#model);
    if (isFix && state.length > 0 && comparison.diffs.length > 0 && controller === this.#controller) {
      this.#putInForce(expected, controller);
    }
    const body = await encodeComparison(comparison);
    if (controller.channel.isClosed) return;
    controller.channel.reply(message, { contentType: EdgeCtrlType.ValidateDataStateResponse, body });
  }

  /** @param more what is concerned besides what the model knows */
  #changed(more?: Touched): void {
    if (more !== undefined) this.#more.push(more);
    if (this.#isTold) return;
    this.#isTold = true;
    setImmediate(() => {
      this.#isTold = false;
      const all = [...this.#more.splice(0), this.#model.takeTouched()];
      this.#listeners.emit(this.#model, {
        identities: all.some(({ identities }) => identities === "all")
          ? "all"
          : new Set(all.flatMap(({ identities }) => [...identities])),
        sessions: new Set(all.flatMap(({ sessions }) => [...sessions])),
        haveKeysChanged: all.some(({ haveKeysChanged }) => haveKeysChanged),
      });
    });
  }
}

/** The state within a request to compare models (20503), which may come in parts: what a message has more than once of another message is merged. */
function validationOf(body: Uint8Array): { readonly state: Uint8Array; readonly isFix: boolean } {
  const reader = new BinaryReader(body);
  const parts: Uint8Array[] = [];
  let isFix = false;
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === 1) parts.push(reader.bytes());
    else if (field === 2) isFix = reader.bool();
    else reader.skip(wireType);
  }
  // Fields of the parts follow each other, which is how they merge.
  const [state = new Uint8Array(), ...more] = parts;
  return { state: more.length === 0 ? state : Buffer.concat(parts), isFix };
}
