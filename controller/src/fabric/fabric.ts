import type { X509Certificate } from "node:crypto";
import { Listeners, pause } from "@sallyport/async";
import { type ApiSessionRecord, boundedLog, type Logger, type TlsPort } from "@sallyport/wire";
import type { Circuit } from "./circuits/circuit.ts";
import { CircuitAccess } from "./circuits/circuit-access.ts";
import { CircuitBuilder } from "./circuits/circuit-builder.ts";
import { CircuitMessages } from "./circuits/circuit-messages.ts";
import { CircuitRegistry } from "./circuits/circuit-registry.ts";
import type { TraceOf } from "./circuits/circuit-traces.ts";
import { DynamicCosts } from "./circuits/costs.ts";
import { Rerouter } from "./circuits/rerouter.ts";
import { RouteExchange } from "./circuits/route-exchange.ts";
import { DataModelFeed, type DataModelValidation } from "./data-model/data-model-feed.ts";
import { type EmitEvent, eventFields } from "./fabric-events.ts";
import { Inspection, type InspectionRequest, type InspectionResult } from "./inspection.ts";
import { LinkAdministration } from "./links/link-administration.ts";
import { LinkMessages } from "./links/link-messages.ts";
import { type LinkState, linkState } from "./links/link-table.ts";
import { Mesh } from "./links/mesh.ts";
import { followChange } from "./model-changes.ts";
import { FABRIC_LIMITS, type FabricOptions, type FabricSettings } from "./options.ts";
import type { FabricModel, TerminatorRecord } from "./ports.ts";
import { ALONE, type ControllerSetPort, type FabricReplicas, type LinkSetting } from "./replicas.ts";
import { ControlListener } from "./routers/control-listener.ts";
import { ControllerSet } from "./routers/controller-set.ts";
import { IdentityConnections } from "./routers/identity-connections.ts";
import { LastSeen } from "./routers/last-seen.ts";
import { ROUTER_LINES, type RouterConnection, type RouterState, routerState } from "./routers/router-connection.ts";
import { RouterLife } from "./routers/router-life.ts";
import { RouterMessages } from "./routers/router-messages.ts";
import { RouterOperations } from "./routers/router-operations.ts";
import { FirstReturn, StartGrace } from "./routers/start-grace.ts";
import { HostingEnds } from "./sessions/hosting-ends.ts";
import { SessionFeed } from "./sessions/session-feed.ts";
import { CircuitAdoption } from "./takeover/circuit-adoption.ts";
import { CircuitOwnership } from "./takeover/circuit-ownership.ts";
import { CircuitReports } from "./takeover/circuit-reports.ts";
import { CircuitSuccession } from "./takeover/circuit-succession.ts";
import type { Choice, ChoiceRequest } from "./terminators/terminator-choice.ts";
import { TerminatorMessages } from "./terminators/terminator-messages.ts";
import { TerminatorSearch } from "./terminators/terminator-search.ts";
import { TerminatorValidation } from "./terminators/terminator-validation.ts";
import { TunnelMessages } from "./tunnel-messages.ts";
import { StoreWait } from "./waiting/store-wait.ts";

/** Longest wait for requests that are being worked on when the fabric closes. */
const CLOSE_TIMEOUT_MS = 3_000;
const CREDIT_MS = 60_000;
const TICK_MS = 5_000;

interface FabricParts {
  /** Where routers connect; each may be shared with the APIs. */
  readonly ports: readonly TlsPort[];
  /** Of the controller; routers file their sessions, circuits and links under it. */
  readonly controllerId: string;
  /** The controllers that routers are told of; without it none. */
  readonly controllers?: ControllerSetPort;
  /** The CAs that routers' certificates must lead to. Asked for every admission: a renewal of the network's CA changes them. */
  readonly trustAnchors: () => readonly X509Certificate[];
  readonly model: FabricModel;
  /** The other controllers of the network; default: none. */
  readonly replicas?: FabricReplicas;
  readonly options: FabricSettings & Partial<FabricOptions>;
  /** Identities whose circuits are traced: routers get the id of the trace. Default: none. */
  readonly traceOf?: TraceOf;
  /** What other parts of the controller answer to inspections, by name. Nothing secret. */
  readonly inspections?: Readonly<Record<string, () => unknown>>;
  readonly log: Logger;
}

/**
 * The authority over routers, links and circuits: the controller's side of the control channel. Accepts routers from its construction until
 * {@link Fabric.close}. Source: docs/protocol/fabric.md.
 */
export class Fabric {
  readonly #model: FabricModel;
  readonly #options: FabricOptions;
  readonly #log: Logger;
  readonly #costs = new DynamicCosts();
  readonly #identities = new IdentityConnections();
  readonly #mesh: Mesh;
  readonly #firstReturn: FirstReturn;
  readonly #exchange: RouteExchange;
  readonly #circuits: CircuitRegistry;
  readonly #rerouter: Rerouter;
  readonly #replicas: FabricReplicas;
  readonly #ownership: CircuitOwnership;
  readonly #succession: CircuitSuccession;
  readonly #reports: CircuitReports;
  readonly #life: RouterLife;
  readonly #controllers: ControllerSet;
  readonly #sessions: SessionFeed;
  readonly #hosting: HostingEnds;
  readonly #access: CircuitAccess;
  readonly #dataModel: DataModelFeed;
  readonly #validation: TerminatorValidation;
  readonly #linkAdministration: LinkAdministration;
  readonly #search: TerminatorSearch;
  readonly #inspection: Inspection;
  readonly operations: RouterOperations;
  /** Everything that handles messages of a router. */
  readonly #handlers: readonly { attach(router: RouterConnection): void }[];
  readonly #stopping: (() => void)[] = [];
  readonly #listeners = new Listeners<Parameters<EmitEvent>>();
  #isClosed = false;

  constructor(parts: FabricParts) {
    const { model, replicas = ALONE } = parts;
    // Applications make routers ask for what is refused, as often as they like.
    const log = boundedLog(parts.log, ROUTER_LINES);
    this.#model = model;
    this.#replicas = replicas;
    this.#log = parts.log;
    this.#options = { ...FABRIC_LIMITS, ...parts.options };
    const options = this.#options;
    const emit: EmitEvent = (event) => {
      log.debug(eventFields(event), event.kind);
      this.#listeners.emit(event);
    };
    const costs = this.#costs;
    const mesh = new Mesh(options, replicas.links);
    const exchange = new RouteExchange({
      ...{ mesh, log },
      isCarriedBy: (circuitId, routerId) => circuits.isCarriedBy(circuitId, routerId),
      isSure: () => this.#ownership.isSure,
      traceOf: parts.traceOf ?? (() => undefined),
    });
    const circuits: CircuitRegistry = new CircuitRegistry(exchange, costs, emit);
    this.#mesh = mesh;
    this.#controllers = new ControllerSet(mesh, parts.controllers);
    this.#exchange = exchange;
    this.#circuits = circuits;
    const isAnyAwaited = () => this.#life.isAnyAwaited();
    const isSure = () => this.#ownership.isSure;
    const rerouter = new Rerouter({ mesh, circuits, exchange, isAnyAwaited, isSure, options, log });
    this.#rerouter = rerouter;
    const ownership = new CircuitOwnership({ replicas, circuits, onSure: () => rerouter.routerSettled(), log });
    this.#ownership = ownership;
    this.onEvent(ownership.noteEvent);
    const start = new StartGrace(options.reconnectGraceMs, () => rerouter.routerSettled());
    this.#firstReturn = new FirstReturn(mesh, start, options);
    this.#sessions = new SessionFeed({ mesh, model, options, log });
    this.#hosting = new HostingEnds({ mesh, model, log });
    this.#validation = new TerminatorValidation({ mesh, model, replicas, costs, now: options.now, log });
    const links = new LinkMessages({ mesh, rerouter, model, emit, log });
    const settings = replicas.links;
    this.#linkAdministration = new LinkAdministration({ mesh, rerouter, messages: links, settings, log });
    const search = new TerminatorSearch({ model, mesh, start, costs, options, log });
    this.#search = search;
    const builder = new CircuitBuilder({
      ...{ model, search, exchange, circuits, costs, options, emit, log },
      isShared: replicas.isShared,
    });
    const access = new CircuitAccess({ model, circuits, log });
    this.#access = access;
    const adoption = new CircuitAdoption({
      ...{ model, circuits, access, exchange, replicas, ownership, now: options.now, log },
      controllerId: parts.controllerId,
      isMaking: (circuitId) => builder.isMaking(circuitId),
    });
    const succession = new CircuitSuccession({
      ...{ replicas, mesh, adoption, circuits, exchange, rerouter, options, log },
    });
    this.#succession = succession;
    this.#life = new RouterLife({
      ...{ model, mesh, start, exchange, circuits, adoption, succession, rerouter, links, emit, log },
      ...{ sessions: this.#sessions, validation: this.#validation, identities: this.#identities },
      reconnectGraceMs: options.reconnectGraceMs,
    });
    this.#dataModel = new DataModelFeed({ source: model.dataModel, model, log });
    const storeWait = new StoreWait(options);
    const circuitMessages = new CircuitMessages({ model, builder, circuits, access, exchange, storeWait, emit, log });
    const reports = new CircuitReports({
      ...{ model, builder, circuits, adoption, ownership, replicas, exchange, rerouter, links, log },
    });
    this.#reports = reports;
    const terminators = new TerminatorMessages({ model, validation: this.#validation, costs, emit, log });
    const tunnels = new TunnelMessages({ model, circuits: circuitMessages, access, storeWait, terminators, log });
    const routers = new RouterMessages({ model, identities: this.#identities, life: this.#life, emit, log });
    this.operations = new RouterOperations(mesh, emit);
    const feeds = [this.#sessions, this.#dataModel, this.#validation, this.#controllers];
    this.#handlers = [links, circuitMessages, reports, terminators, tunnels, routers, ...feeds, this.operations];
    const lastSeen = new LastSeen(options.now);
    this.onEvent((event) => lastSeen.note(event));
    this.#inspection = new Inspection({
      ...{ controllerId: parts.controllerId, mesh, costs, options, lastSeen, further: parts.inspections ?? {} },
      ...{ identities: this.#identities, validation: this.#validation },
    });
    this.#stopping.push(replicas.onSuccession(() => this.#sessions.takeOver()));
    this.#start(parts);
  }

  /** Tells `listener`, which must not throw, of everything that happens from now on. */
  onEvent(listener: EmitEvent): () => void {
    return this.#listeners.add(listener);
  }

  /** Connected routers. One that is not listed is offline. */
  routers(): RouterState[] {
    return this.#mesh.routers().map(routerState);
  }

  /** Undefined for a router that is not connected. */
  routerState(id: string): RouterState | undefined {
    const router = this.#mesh.router(id);
    return router && routerState(router);
  }

  /** Just after the start: resolves when clients can use one of these routers, or none is on its way back; else at once. */
  someRouterBack(routerIds: readonly string[]): Promise<void> {
    return this.#firstReturn.ofSome(routerIds);
  }

  onlineRouterIds(): string[] {
    return this.#mesh.routers().map((router) => router.id);
  }

  /** Is the identity connected to an edge router? `unknown` while no router has said. */
  identityConnection(identityId: string): "online" | "offline" | "unknown" {
    return this.#identities.state(identityId);
  }

  /** Identities that the router says are connected to it. */
  identitiesOf(routerId: string): ReadonlySet<string> {
    return this.#identities.of(routerId);
  }

  /** What the way of a circuit costs now; infinite when a link of it is gone. */
  pathCost(circuit: Circuit): number {
    return this.#mesh.costOf(circuit.route);
  }

  circuits(): Circuit[] {
    return this.#circuits.all();
  }

  circuit(id: string): Circuit | undefined {
    return this.#circuits.get(id);
  }

  /** Those of the circuits that other controllers have taken over. */
  async elsewhere(circuitIds: readonly string[]): Promise<string[]> {
    if (circuitIds.length === 0) return [];
    return [...(await this.#replicas.ownersOf(circuitIds)).keys()];
  }

  link(id: string): LinkState | undefined {
    const link = this.#mesh.links.get(id);
    return link && linkState(link);
  }

  links(): LinkState[] {
    return this.#mesh.links.all().map(linkState);
  }

  /** What a dial of this moment among these terminators comes to, without waiting for any of them. */
  chooseTerminator(request: ChoiceRequest, terminators: readonly TerminatorRecord[]): Choice {
    return this.#search.choose(request, terminators);
  }

  /** Dynamic part of a terminator's cost. */
  dynamicCost(terminatorId: string): number {
    return this.#costs.of(terminatorId);
  }

  /**
   * Tells all connected edge routers of new API sessions. Resolves when that is written to them, at the latest after `announceTimeoutMs`: call it before a
   * login is answered, and the SDK finds its session on every router.
   */
  async announceApiSession(...sessions: ApiSessionRecord[]): Promise<void> {
    await this.#sessions.announce(sessions);
  }

  /** Ends a circuit, at once or (`isImmediate` false) when its traffic has run dry; false when there is none. */
  removeCircuit(id: string, isImmediate = true): boolean {
    return this.#circuits.end(id, isImmediate, "removed by an administrator");
  }

  /** Has both ends close a link and moves its circuits; false when there is none. */
  removeLink(id: string): boolean {
    return this.#linkAdministration.remove(id);
  }

  /** The same of a link that was removed at another controller: its ends know. */
  forgetLink(id: string): void {
    this.#linkAdministration.forget(id);
  }

  /** An administrator's change of a link; undefined when there is none. A link marked down carries no circuits any more. */
  async updateLink(id: string, change: Partial<LinkSetting>): Promise<LinkState | undefined> {
    const link = await this.#linkAdministration.update(id, change);
    return link && linkState(link);
  }

  /** Closes a router's channel, if it has one. It may come back when it is still admitted. */
  disconnectRouter(id: string, reason = "disconnected by the controller"): boolean {
    const router = this.#mesh.router(id);
    router?.channel.close(new Error(reason));
    return router !== undefined;
  }

  /** Asks this controller and connected routers about their inner state. Never rejects. */
  async inspect(request: InspectionRequest): Promise<InspectionResult> {
    return this.#inspection.inspect(request);
  }

  /** Asks this controller alone, if it is meant. */
  inspectSelf(request: InspectionRequest): InspectionResult {
    return this.#inspection.inspectSelf(request);
  }

  /** Does the router keep a model of the network? One that works by sessions alone has none. */
  keepsDataModel(routerId: string): boolean {
    const router = this.#mesh.router(routerId);
    return router !== undefined && this.#dataModel.isFollowedBy(router);
  }

  /**
   * Has a router compare its model of the network with ours; undefined when it is not connected. `fix`: it takes over what differs.
   * @throws RequestTimeoutError, ChannelClosedError
   */
  async validateDataModel(routerId: string, fix = false): Promise<DataModelValidation | undefined> {
    const router = this.#mesh.router(routerId);
    return router && this.#dataModel.validate(router, fix);
  }

  /** What is due by time about the data model (by the steady clock) and the validation of terminators; runs every few seconds. */
  tick(now: number, steady: number): void {
    this.#dataModel.tick(steady);
    this.#validation.tick(now);
  }

  /** Takes no more routers, ends their channels, and waits up to 3 s for their requests. Circuits go on without a controller. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const stop of this.#stopping.reverse()) stop();
    for (const part of [this.#linkAdministration, this.#succession, this.#ownership, this.#reports]) part.close();
    this.#rerouter.close();
    this.#exchange.close();
    const routers = this.#mesh.routers();
    for (const router of routers) router.channel.close(new Error("the controller is shutting down"));
    this.#life.close();
    this.#controllers.close();
    this.#dataModel.close();
    this.#access.close();
    this.#hosting.close();
    this.#validation.close();
    const timer = new AbortController();
    await Promise.race([Promise.all(routers.map((router) => router.idle())), pause(CLOSE_TIMEOUT_MS, timer.signal)]);
    timer.abort();
  }

  #start({ ports, controllerId, trustAnchors }: FabricParts): void {
    const listener = new ControlListener({
      isShared: this.#replicas.isShared,
      controllerId,
      trustAnchors,
      model: this.#model,
      mesh: this.#mesh,
      options: this.#options,
      attach: (router) => {
        for (const handler of this.#handlers) handler.attach(router);
      },
      onConnected: (router, isNewProcess) => {
        this.#controllers.connected(router);
        this.#life.connected(router, isNewProcess);
      },
      onDisconnected: (router, reason) => this.#life.disconnected(router, reason),
      log: this.#log,
    });
    const every = (ms: number, work: () => void) => {
      const timer = setInterval(work, ms);
      return () => clearInterval(timer);
    };
    const followers = {
      ...{
        life: this.#life,
        sessions: this.#sessions,
        hosting: this.#hosting,
        circuits: this.#circuits,
        access: this.#access,
      },
      ...{ costs: this.#costs, validation: this.#validation, dataModel: this.#dataModel, log: this.#log },
    };
    this.#stopping.push(
      ...ports.map((port) => listener.listen(port)),
      this.#model.onChange((change) => followChange(followers, change)),
      every(this.#options.cycleMs, () => this.#cycle()),
      every(CREDIT_MS, () => this.#costs.credit(performance.now())),
      every(TICK_MS, () => this.tick(this.#options.now(), performance.now())),
    );
  }

  #cycle(): void {
    this.#mesh.links.sweep(performance.now());
    this.#rerouter.improve();
  }
}
