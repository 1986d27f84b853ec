import {
  ControllerCapability,
  decodeControl,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Logger,
  type Message,
} from "@sallyport/wire";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { Controllers } from "../controllers/controllers.ts";
import { compareModels, NetworkModel } from "./network-model.ts";

export interface DataModelOptions {
  readonly controllers: Controllers;
  readonly routerId: string;
  /** The model has changed. Changes that arrive together are told once. */
  readonly onChange: (model: NetworkModel) => void;
  readonly log: Logger;
  /** For tests; the standard times are those of docs/protocol/data-model.md. */
  readonly times?: Partial<typeof times>;
}

const times = {
  /** Asked for, and renewed after a third of it. */
  subscriptionMs: 300_000,
  /** How long changes may be on their way when the controller names an index beyond ours. */
  catchUpMs: 5_000,
};

/**
 * Follows the data model of the network: subscribes to one controller that has it, to another when that one is lost,
 * and continues from its index. The model is not kept over a restart: any controller sends it again, and the router
 * would act on an outdated one (docs/protocol/data-model.md, "Sallyport's router").
 */
export class DataModelSubscription {
  readonly #o: DataModelOptions;
  readonly #times: typeof times;
  #model: NetworkModel;
  #controller: ControllerConnection | undefined;
  #renewal: NodeJS.Timeout | undefined;
  #catchUp: NodeJS.Timeout | undefined;
  #told = false;

  constructor(options: DataModelOptions) {
    this.#o = options;
    this.#times = { ...times, ...options.times };
    this.#model = new NetworkModel(options.routerId);
    const { controllers } = options;
    controllers.handle(EdgeCtrlType.DataState, (message, controller) => this.#state(message, controller));
    controllers.handle(EdgeCtrlType.DataStateChangeSet, (message, controller) => this.#change(message, controller));
    controllers.handle(EdgeCtrlType.CurrentIndex, (message, controller) => this.#named(message, controller));
    controllers.handle(EdgeCtrlType.ValidateDataStateRequest, (message, controller) =>
      this.#validate(message, controller),
    );
    controllers.onConnected(() => this.#choose());
    controllers.onDisconnected((controller) => {
      if (this.#controller === controller) this.#leave();
      this.#choose();
    });
    this.#choose();
  }

  /** The controller subscribed to; undefined: none has a model to give. */
  get controller(): ControllerConnection | undefined {
    return this.#controller;
  }

  get model(): NetworkModel {
    return this.#model;
  }

  close(): void {
    this.#leave();
  }

  /** Keeps the controller it has as long as that one is connected. */
  #choose(): void {
    if (this.#controller !== undefined && !this.#controller.channel.isClosed) return;
    const { controllers } = this.#o;
    const able = controllers.all().filter((each) => each.has(ControllerCapability.RouterDataModel));
    const best = controllers.best();
    this.#controller = able.find((each) => each === best) ?? able[0];
    if (this.#controller === undefined) return;
    this.#subscribe(false);
    clearInterval(this.#renewal);
    this.#renewal = setInterval(() => this.#subscribe(true), this.#times.subscriptionMs / 3);
    this.#renewal.unref();
  }

  #leave(): void {
    this.#controller = undefined;
    clearInterval(this.#renewal);
    clearTimeout(this.#catchUp);
    this.#catchUp = undefined;
  }

  #subscribe(renew: boolean): void {
    const controller = this.#controller;
    if (controller === undefined) return;
    const body = encodeControl(edgeCtrlPb.SubscribeToDataModelRequestSchema, {
      currentIndex: this.#model.index,
      timelineId: this.#model.timeline,
      subscriptionDurationSeconds: Math.ceil(this.#times.subscriptionMs / 1000),
      renew,
    });
    this.#o.controllers.sendTo(controller.id, { contentType: EdgeCtrlType.SubscribeToDataModel, body });
  }

  #state(message: Message, controller: ControllerConnection): void {
    if (controller !== this.#controller) return;
    const state = decodeControl(edgeCtrlPb.DataStateSchema, message.body);
    this.#model.replace(state);
    const fields = { controllerId: controller.id, index: state.endIndex.toString(), events: state.events.length };
    this.#o.log.info(fields, "the data model was received");
    this.#changed();
  }

  #change(message: Message, controller: ControllerConnection): void {
    if (controller !== this.#controller) return;
    if (this.#model.change(decodeControl(edgeCtrlPb.DataState_ChangeSetSchema, message.body))) this.#changed();
  }

  /** The controller's index. One beyond ours with nothing on its way means that something was lost: ask from ours on. */
  #named(message: Message, controller: ControllerConnection): void {
    const index = message.headers.getU64(EdgeCtrlHeader.DataModelIndex) ?? 0n;
    if (controller !== this.#controller || index <= this.#model.index) return;
    this.#catchUp ??= setTimeout(() => {
      this.#catchUp = undefined;
      if (index <= this.#model.index) return;
      const fields = { controllerId: controller.id, index: index.toString(), ours: this.#model.index.toString() };
      this.#o.log.warn(fields, "changes of the data model are missing; asking for them");
      this.#subscribe(false);
    }, this.#times.catchUpMs).unref();
  }

  #validate(message: Message, controller: ControllerConnection): void {
    const { state, fix } = decodeControl(edgeCtrlPb.RouterDataModelValidateRequestSchema, message.body);
    const expected = new NetworkModel(this.#o.routerId);
    if (state !== undefined) expected.replace(state);
    const comparison = compareModels(expected, this.#model);
    if (fix && state !== undefined && comparison.diffs.length > 0 && controller === this.#controller) {
      this.#model = expected;
      this.#changed();
    }
    if (controller.channel.isClosed) return;
    const body = encodeControl(edgeCtrlPb.RouterDataModelValidateResponseSchema, comparison);
    controller.channel.reply(message, { contentType: EdgeCtrlType.ValidateDataStateResponse, body });
  }

  #changed(): void {
    // Of a state that is not all here, most of what an identity may do is missing.
    if (this.#told || !this.#model.isComplete) return;
    this.#told = true;
    setImmediate(() => {
      this.#told = false;
      if (this.#model.isComplete) this.#o.onChange(this.#model);
    });
  }
}
