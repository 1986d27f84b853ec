import { Listeners } from "@sallyport/async";
import {
  type ApiSessionRecord,
  ControllerCapability,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  InspectionKey,
  type Logger,
  Precedence,
} from "@sallyport/wire";
import { RouterAccess } from "../access/access.ts";
import type { Access } from "../access/ports.ts";
import type { Fault } from "../forwarder/fault-reports.ts";
import type { WorkPool } from "../metrics/work-pool.ts";
import { CircuitReports } from "./circuit-reports.ts";
import { createCircuit, createPlainCircuit, createServiceCircuit, type PlainCircuitRequest } from "./circuits.ts";
import { ConnectEvents } from "./connect-events.ts";
import type {
  CircuitCreated,
  ControlPlane,
  HealthEvent,
  IdentityChannel,
  SdkCircuitRequest,
  SdkCredentials,
  ServiceCircuitRequest,
  TerminatorAnswer,
  TerminatorRequest,
  TerminatorUpdate,
  TerminatorValidator,
  Unsubscribe,
} from "./control-plane.ts";
import type { Controllers } from "./controllers/controllers.ts";
import { DataModelSubscription } from "./data-model/data-model-subscription.ts";
import { expectReply } from "./errors.ts";
import { InspectionRegistry } from "./inspection-registry.ts";
import { KnownApiSessions, RemovedSessions } from "./sessions/api-sessions.ts";
import { type EdgeAddress, EdgeSync } from "./sessions/edge-sync.ts";
import { SessionHeartbeats, type TokenSource } from "./sessions/session-heartbeats.ts";
import type { AdaptiveWindow } from "./terminators/adaptive-window.ts";
import { sdkTerminatorMessages } from "./terminators/sdk-terminators.ts";
import { TerminatorRegistry } from "./terminators/terminator-registry.ts";
import { TerminatorRemovals } from "./terminators/terminator-removals.ts";
import { TerminatorValidators } from "./terminators/terminator-validation.ts";
import { TunnelControl } from "./tunnel/tunnel-control.ts";

export interface ControlOptions {
  readonly routerId: string;
  readonly controllers: Controllers;
  /** Where SDKs reach this router; empty without an edge listener. */
  readonly edgeAddresses: () => readonly EdgeAddress[];
  /** SDKs with access tokens are admitted by the data model. */
  readonly hasEdgeListener: boolean;
  readonly heartbeatIntervalMs: number;
  readonly validate: { chunkSize: number; minPauseMs: number; maxPauseMs: number };
  readonly connectEvents: { enabled: boolean; batchIntervalMs: number; fullSyncIntervalMs: number };
  readonly rateLimited: { workers: number; queueLength: number };
  /** `ctrl.rateLimiter`; without it nothing but the workers bounds requests for terminators. */
  readonly window?: AdaptiveWindow | undefined;
  readonly log: Logger;
}

/** The router's side of the control channels: everything edge listener and forwarder ask of the controllers. */
export class Control implements ControlPlane {
  readonly routerId: string;
  readonly inspection: InspectionRegistry;
  readonly #controllers: Controllers;
  readonly #log: Logger;
  readonly #apiSessions = new KnownApiSessions();
  readonly #removed = new RemovedSessions();
  readonly #dataModel: DataModelSubscription;
  readonly #access: RouterAccess;
  readonly #sessionListeners = new Listeners<[token: string]>();
  readonly #lostListeners = new Listeners<[id: string, outcome: TerminatorAnswer]>();
  readonly #heartbeats: SessionHeartbeats;
  readonly #sync: EdgeSync;
  readonly #terminators: TerminatorRegistry<TerminatorRequest>;
  readonly #removals: TerminatorRemovals;
  readonly #validation: TerminatorValidators;
  readonly #connectEvents: ConnectEvents;
  readonly #circuits: CircuitReports;
  readonly #rateLimited: ControlOptions["rateLimited"];
  #tunnel: TunnelControl | undefined;

  constructor(o: ControlOptions) {
    const { controllers, log } = o;
    this.routerId = o.routerId;
    this.#controllers = controllers;
    this.#log = log;
    this.#rateLimited = o.rateLimited;
    this.#heartbeats = new SessionHeartbeats(o);
    this.#dataModel = new DataModelSubscription({ controllers, log });
    this.#access = new RouterAccess({ source: this.#dataModel, log });
    if (o.hasEdgeListener) this.#dataModel.follow();
    this.#sync = new EdgeSync({
      controllers,
      log,
      apiSessions: this.#apiSessions,
      addresses: o.edgeAddresses,
      followsDataModel: () => this.#dataModel.isFollowing,
      onSessionsRemoved: (tokens) => this.#sessionsRemoved(tokens),
    });
    this.#removals = new TerminatorRemovals({ controllers, window: o.window, log });
    this.#terminators = new TerminatorRegistry({
      controllers,
      log,
      messages: sdkTerminatorMessages,
      workers: o.rateLimited.workers,
      queueLength: o.rateLimited.queueLength,
      window: o.window,
      onLost: (id, outcome) => void this.#lostListeners.emit(id, outcome),
    });
    this.#validation = new TerminatorValidators({
      controllers,
      log,
      onConfirmed: (id) => {
        this.#terminators.confirm(id);
        this.#tunnel?.confirm(id);
      },
      onUnknown: (ids) => this.#removals.add(ids),
    });
    this.#circuits = new CircuitReports(controllers);
    this.#connectEvents = new ConnectEvents({ controllers, ...o.connectEvents });
    this.inspection = new InspectionRegistry(controllers, log);
    this.inspection.register("router-controllers", () => ({
      controllers: controllers.all().map((c) => ({
        controllerId: c.id,
        address: c.address,
        version: c.version.version,
        isConnected: !c.channel.isClosed,
        latency: c.latencyMs === Number.MAX_SAFE_INTEGER ? undefined : `${c.latencyMs}ms`,
      })),
    }));
    this.inspection.register(InspectionKey.SdkTerminators, () => this.#terminators.inspect());
    this.inspection.register(
      InspectionKey.TunnelTerminators,
      () => this.#tunnel?.inspect() ?? { entries: [], errors: null },
    );
    this.inspection.register(InspectionKey.RouterDataModel, () => this.#dataModel.inspect());
    this.inspection.register("router-posture", () => this.#access.inspectPosture());
    this.inspection.register("router-data-model-index", () => this.#dataModel.position());
    this.inspection.register(InspectionKey.IdentityConnections, () => this.#connectEvents.statuses());
  }

  /** Decisions about access tokens, by the data model. */
  get access(): Access {
    return this.#access;
  }

  /** The controllers number their changes from the start again, which they do after their database was replaced. */
  onModelRestarted(callback: () => void): Unsubscribe {
    return this.#dataModel.onRestarted(callback);
  }

  apiSessions(): ApiSessionRecord[] {
    return this.#apiSessions.all();
  }

  /** Its pools of workers, by the names of their metrics. */
  pools(): (readonly [name: string, pool: WorkPool])[] {
    return [
      ["rate_limiter", this.#terminators.pool],
      ["terminator_validation", this.#validation.pool],
    ];
  }

  isConnected(): boolean {
    return this.#controllers.all().length > 0;
  }

  findApiSession(token: string, o: { signal?: AbortSignal; timeoutMs: number }): Promise<ApiSessionRecord | undefined> {
    return this.#apiSessions.wait(token, o);
  }

  onApiSessionRemoved(callback: (session: ApiSessionRecord) => void): Unsubscribe {
    return this.#apiSessions.onRemoved(callback);
  }

  onApiSessionUpdated(callback: (session: ApiSessionRecord) => void): Unsubscribe {
    return this.#apiSessions.onUpdated(callback);
  }

  onSessionRemoved(callback: (sessionToken: string) => void): Unsubscribe {
    return this.#sessionListeners.add(callback);
  }

  wasSessionRemoved(sessionToken: string): boolean {
    return this.#removed.has(sessionToken, performance.now());
  }

  setTokenSource(source: TokenSource): void {
    this.#heartbeats.setSource(source);
  }

  createCircuit(request: SdkCircuitRequest): Promise<CircuitCreated> {
    return createCircuit(this.#controllers, request);
  }

  get takesServiceCircuits(): boolean {
    const all = this.#controllers.all();
    return all.length > 0 && all.every((controller) => controller.has(ControllerCapability.JwtSessions));
  }

  createServiceCircuit(request: ServiceCircuitRequest): Promise<CircuitCreated> {
    return createServiceCircuit(this.#controllers, request);
  }

  /** A circuit for a listener of this router, without a session. Throws as {@link createPlainCircuit}. */
  createPlainCircuit(request: PlainCircuitRequest): Promise<CircuitCreated> {
    return createPlainCircuit(this.#controllers, request);
  }

  /** The side of the router's own tunneler, which from now on follows its services. To be called once. */
  startTunnel(o: { servicePollMs: number }): TunnelControl {
    this.#dataModel.follow();
    this.#tunnel = new TunnelControl({
      ...{ routerId: this.routerId, controllers: this.#controllers, removals: this.#removals, log: this.#log },
      ...{ ...this.#rateLimited, servicePollMs: o.servicePollMs, model: this.#dataModel },
    });
    return this.#tunnel;
  }

  createTerminator(request: TerminatorRequest, o: { signal?: AbortSignal } = {}): Promise<TerminatorAnswer> {
    this.#removals.cancel(request.address);
    return this.#terminators.create(request, o.signal);
  }

  renewCredentials(terminatorId: string, { sessionToken, apiSessionToken, fingerprints }: SdkCredentials): void {
    this.#terminators.revise(terminatorId, { sessionToken, apiSessionToken, fingerprints });
  }

  onTerminatorLost(callback: (terminatorId: string, outcome: TerminatorAnswer) => void): Unsubscribe {
    return this.#lostListeners.add(callback);
  }

  removeTerminators(ids: readonly string[]): void {
    this.#terminators.forget(ids);
    this.#removals.add(ids);
  }

  async updateTerminator(update: TerminatorUpdate): Promise<void> {
    const { cost, precedence } = update;
    this.#terminators.revise(update.terminatorId, { cost, precedence });
    const body = encodeControl(edgeCtrlPb.UpdateTerminatorRequestSchema, {
      sessionToken: update.sessionToken,
      apiSessionToken: update.apiSessionToken,
      fingerprints: [...update.fingerprints],
      terminatorId: update.terminatorId,
      cost: update.cost ?? 0,
      updateCost: update.cost !== undefined,
      precedence: update.precedence ?? Precedence.Default,
      updatePrecedence: update.precedence !== undefined,
    });
    const contentType = EdgeCtrlType.UpdateTerminatorRequest;
    const reply = await this.#controllers.repeatableRequest("updating a terminator", { contentType, body });
    expectReply(reply, EdgeCtrlType.UpdateTerminatorResponse);
  }

  healthEvent(event: HealthEvent): void {
    const body = encodeControl(edgeCtrlPb.HealthEventRequestSchema, {
      ...event,
      fingerprints: [...event.fingerprints],
    });
    const controller = this.#controllers.best();
    if (controller === undefined) return;
    this.#controllers.sendTo(controller.id, { contentType: EdgeCtrlType.HealthEvent, body });
  }

  onValidateTerminators(binding: string, validator: TerminatorValidator): Unsubscribe {
    return this.#validation.register(binding, validator);
  }

  identityConnected(connection: IdentityChannel): void {
    this.#connectEvents.connected(connection);
  }

  identityDisconnected(connection: IdentityChannel): void {
    this.#connectEvents.disconnected(connection);
  }

  sendFault(fault: Fault): void {
    this.#circuits.fault(fault);
  }

  /** Asks the owner of idle circuits whether they still exist; it unroutes those that do not. */
  confirmCircuits(controllerId: string, idleMs: ReadonlyMap<string, number>): void {
    this.#circuits.confirm(controllerId, idleMs);
  }

  close(): void {
    this.#sync.close();
    this.#heartbeats.close();
    this.#terminators.close();
    this.#tunnel?.close();
    this.#access.close();
    this.#dataModel.close();
    this.#removals.close();
    this.#connectEvents.close();
  }

  #sessionsRemoved(tokens: readonly string[]): void {
    const now = performance.now();
    for (const token of tokens) {
      this.#removed.add(token, now);
      this.#sessionListeners.emit(token);
    }
    this.#log.debug({ sessions: tokens.length }, "sessions were removed");
  }
}
