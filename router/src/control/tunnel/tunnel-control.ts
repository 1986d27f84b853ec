import { isDeepStrictEqual } from "node:util";
import { Listeners } from "@sallyport/async";
import {
  ControllerCapability,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Logger,
  Precedence,
} from "@sallyport/wire";
import type { CircuitCreated, TerminatorAnswer, Unsubscribe } from "../control-plane.ts";
import type { Controllers } from "../controllers/controllers.ts";
import type { DataModelSubscription } from "../data-model/data-model-subscription.ts";
import { expectReply } from "../errors.ts";
import { TerminatorRegistry, type TerminatorRegistryOptions } from "../terminators/terminator-registry.ts";
import type { TerminatorRemovals } from "../terminators/terminator-removals.ts";
import { LegacyServices } from "./legacy-services.ts";
import { createTunnelCircuit, type TunnelCircuitRequest } from "./tunnel-circuits.ts";
import type { TunnelIdentity } from "./tunnel-identity.ts";
import { TunnelTerminatorMessages, type TunnelTerminatorRequest } from "./tunnel-terminators.ts";

export interface TunnelControlOptions {
  readonly routerId: string;
  readonly controllers: Controllers;
  readonly removals: TerminatorRemovals;
  readonly model: DataModelSubscription;
  /** `listeners[tunnel].options.svcPollRate`. */
  readonly servicePollMs: number;
  readonly workers: number;
  readonly queueLength: number;
  readonly log: Logger;
  /** For tests. */
  readonly times?: TerminatorRegistryOptions<TunnelTerminatorRequest>["times"];
}

/** What did not work is looked for this often, and tried again when it is older than that. */
const RETRY = { scanMs: 15_000, staleMs: 30_000 } as const;

/**
 * What the router's own tunneler needs of the controllers: who it is and which services it has, circuits, terminators.
 * With the data model where a controller has it, by sessions at others; networks may change from one to the other while
 * the router runs (docs/protocol/control.md, "Tunneling").
 */
export class TunnelControl {
  readonly #o: TunnelControlOptions;
  readonly #legacy: LegacyServices;
  readonly #terminators: TerminatorRegistry<TunnelTerminatorRequest>;
  readonly #listeners = new Listeners<[identity: TunnelIdentity | undefined]>();
  readonly #lost = new Listeners<[id: string, outcome: TerminatorAnswer]>();
  readonly #stopFollowing: Unsubscribe;
  #known = false;
  #identity: TunnelIdentity | undefined;

  constructor(options: TunnelControlOptions) {
    this.#o = options;
    const { controllers, model, routerId, log } = options;
    this.#legacy = new LegacyServices({
      controllers,
      pollMs: options.servicePollMs,
      onChange: (identity) => {
        if (model.controller === undefined) this.#changed(identity);
      },
      log,
    });
    this.#stopFollowing = model.onChange((network) => this.#changed(network.tunnelIdentity(routerId)));
    if (model.hasModel) this.#changed(model.model.tunnelIdentity(routerId));
    this.#terminators = new TerminatorRegistry({
      controllers,
      messages: new TunnelTerminatorMessages(this.#legacy),
      workers: options.workers,
      queueLength: options.queueLength,
      onLost: (id, outcome) => void this.#lost.emit(id, outcome),
      log,
      times: { ...RETRY, ...options.times },
    });
    controllers.onConnected(() => this.#choose());
    controllers.onDisconnected(() => this.#choose());
    controllers.onHanging(() => this.#choose());
    this.#choose();
  }

  /**
   * Follows the identity and its services: at once when they are known, then at every change. `undefined`: the router
   * has no identity to tunnel as at the moment, or a disabled one.
   */
  onIdentity(listener: (identity: TunnelIdentity | undefined) => void): Unsubscribe {
    const remove = this.#listeners.add(listener);
    if (this.#known) listener(this.#identity);
    return remove;
  }

  /**
   * Waits for a controller, within the request's time, while none is connected.
   * @throws NoControllerError, EdgeCtrlError with the controller's reason, and as `Channel.request`
   */
  async createCircuit(request: TunnelCircuitRequest): Promise<CircuitCreated> {
    return await this.#o.controllers.ask("creating a circuit", request.timeoutMs, (controller, options) =>
      createTunnelCircuit(controller, this.#legacy, request, options),
    );
  }

  /** Creates the terminator and keeps it until it is removed, see `ControlPlane.createTerminator`. */
  createTerminator(request: TunnelTerminatorRequest): Promise<TerminatorAnswer> {
    this.#o.removals.cancel(request.address);
    return this.#terminators.create(request);
  }

  /** A controller says that the id belongs to another host; the terminator is no longer kept. */
  onTerminatorLost(listener: (id: string, outcome: TerminatorAnswer) => void): Unsubscribe {
    return this.#lost.add(listener);
  }

  /** Changes cost and precedence, now and whenever the terminator has to be created again. @throws EdgeCtrlError */
  async updateTerminator(
    terminatorId: string,
    update: { cost?: number | undefined; precedence?: Precedence | undefined },
  ): Promise<void> {
    this.#terminators.revise(terminatorId, update);
    if (!this.#terminators.isEstablished(terminatorId)) return;
    const body = encodeControl(edgeCtrlPb.UpdateTunnelTerminatorRequestSchema, {
      terminatorId,
      cost: update.cost ?? 0,
      updateCost: update.cost !== undefined,
      precedence: update.precedence ?? Precedence.Default,
      updatePrecedence: update.precedence !== undefined,
    });
    const contentType = EdgeCtrlType.UpdateTunnelTerminatorRequest;
    const reply = await this.#o.controllers.repeatableRequest("updating a terminator", { contentType, body });
    expectReply(reply, EdgeCtrlType.UpdateTunnelTerminatorResponse);
  }

  removeTerminators(ids: readonly string[]): void {
    this.#terminators.forget(ids);
    this.#o.removals.add(ids);
  }

  /** Reports a health check; not repeated. */
  healthEvent(terminatorId: string, checkPassed: boolean): void {
    const controller = this.#o.controllers.best();
    if (controller === undefined) return;
    const headers = new Headers()
      .setString(EdgeCtrlHeader.TerminatorId, terminatorId)
      .setBool(EdgeCtrlHeader.CheckPassed, checkPassed);
    this.#o.controllers.sendTo(controller.id, { contentType: EdgeCtrlType.TunnelHealthEvent, headers });
  }

  /** A controller asked for this terminator: it has it. */
  confirm(id: string): void {
    this.#terminators.confirm(id);
  }

  inspect(): object {
    return this.#terminators.inspect();
  }

  close(): void {
    this.#stopFollowing();
    this.#legacy.stop();
    this.#terminators.close();
    this.#listeners.clear();
  }

  /** Services come from the data model as long as any controller has it, else from the controller to ask. */
  #choose(): void {
    const { controllers } = this.#o;
    const hasModel = controllers.all().some((each) => each.has(ControllerCapability.RouterDataModel));
    const best = controllers.best();
    if (hasModel || best === undefined) this.#legacy.stop();
    else this.#legacy.follow(best);
  }

  #changed(identity: TunnelIdentity | undefined): void {
    if (this.#known && isDeepStrictEqual(identity, this.#identity)) return;
    this.#known = true;
    this.#identity = identity;
    this.#listeners.emit(identity);
  }
}
