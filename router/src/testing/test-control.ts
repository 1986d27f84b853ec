import { Listeners, pause } from "@sallyport/async";
import { type ApiSessionRecord, TerminatorResult } from "@sallyport/wire";
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
} from "../control/control-plane.ts";
import { NoControllerError } from "../control/errors.ts";
import type { Fault } from "../forwarder/fault-reports.ts";
import type { TestNetwork } from "./test-network.ts";

/** A control plane whose controller is the test. */
export class TestControl implements ControlPlane {
  readonly routerId: string;
  readonly #network: TestNetwork;
  connected = true;
  readonly removedSessions = new Set<string>();
  readonly updates: TerminatorUpdate[] = [];
  /** Updates are answered when this is. */
  updateAnswered: Promise<void> = Promise.resolve();
  /** Dials by service are answered when this is. */
  circuitAnswered: Promise<void> = Promise.resolve();
  readonly serviceDials: ServiceCircuitRequest[] = [];
  readonly renewals: (SdkCredentials & { terminatorId: string })[] = [];
  readonly healthEvents: HealthEvent[] = [];
  readonly removedTerminators: string[] = [];
  readonly online = new Map<string, IdentityChannel>();
  readonly validators = new Map<string, TerminatorValidator>();
  tokens: { apiSessionTokens(): Iterable<string>; sessionTokens(): Iterable<string> } | undefined;
  /** Answers to the next terminator creations; success when empty. */
  terminatorOutcomes: Omit<TerminatorAnswer, "terminatorId">[] = [];
  readonly #apiSessionRemoved = new Listeners<[session: ApiSessionRecord]>();
  readonly #sessionRemoved = new Listeners<[token: string]>();
  readonly #terminatorLost = new Listeners<[id: string, outcome: TerminatorAnswer]>();

  constructor(network: TestNetwork, routerId: string) {
    this.#network = network;
    this.routerId = routerId;
  }

  isConnected(): boolean {
    return this.connected;
  }

  async findApiSession(
    token: string,
    o: { signal?: AbortSignal; timeoutMs: number },
  ): Promise<ApiSessionRecord | undefined> {
    const until = Date.now() + o.timeoutMs;
    for (;;) {
      const known = this.#network.apiSessions.get(token);
      if (known !== undefined || Date.now() >= until) return known;
      o.signal?.throwIfAborted();
      await pause(5);
    }
  }

  onApiSessionRemoved(callback: (session: ApiSessionRecord) => void): () => void {
    return this.#apiSessionRemoved.add(callback);
  }

  onApiSessionUpdated(): () => void {
    return () => {};
  }

  onSessionRemoved(callback: (token: string) => void): () => void {
    return this.#sessionRemoved.add(callback);
  }

  onTerminatorLost(callback: (id: string, outcome: TerminatorAnswer) => void): () => void {
    return this.#terminatorLost.add(callback);
  }

  wasSessionRemoved(token: string): boolean {
    return this.removedSessions.has(token);
  }

  setTokenSource(source: { apiSessionTokens(): Iterable<string>; sessionTokens(): Iterable<string> }): void {
    this.tokens = source;
  }

  async createCircuit(request: SdkCircuitRequest): Promise<CircuitCreated> {
    // The real one waits for a controller first.
    if (!this.connected) throw new NoControllerError("creating a circuit", request.timeoutMs ?? 0);
    return this.#network.createCircuit(this.routerId, request);
  }

  takesServiceCircuits = true;

  async createServiceCircuit(request: ServiceCircuitRequest): Promise<CircuitCreated> {
    if (!this.connected) throw new NoControllerError("creating a circuit", request.timeoutMs ?? 0);
    this.serviceDials.push(request);
    const circuit = await this.#network.createCircuit(this.routerId, request);
    await this.circuitAnswered;
    return circuit;
  }

  renewCredentials(terminatorId: string, credentials: SdkCredentials): void {
    this.renewals.push({ terminatorId, ...credentials });
  }

  async createTerminator(request: TerminatorRequest): Promise<TerminatorAnswer> {
    const scripted = this.terminatorOutcomes.shift();
    if (scripted !== undefined) return { terminatorId: request.address, ...scripted };
    const session = this.#network.sessions.get(request.sessionToken);
    if (session === undefined) {
      return {
        terminatorId: request.address,
        result: TerminatorResult.FailedInvalidSession,
        message: "invalid session",
      };
    }
    this.#network.terminators.set(request.address, {
      id: request.address,
      service: session.service,
      routerId: this.routerId,
      binding: "edge",
      address: request.address,
      peerData: request.peerData,
    });
    return { terminatorId: request.address, result: TerminatorResult.Success, message: "" };
  }

  removeTerminators(ids: readonly string[]): void {
    this.removedTerminators.push(...ids);
    for (const id of ids) this.#network.terminators.delete(id);
  }

  async updateTerminator(update: TerminatorUpdate): Promise<void> {
    this.updates.push(update);
    await this.updateAnswered;
  }

  healthEvent(event: HealthEvent): void {
    this.healthEvents.push(event);
  }

  onValidateTerminators(binding: string, validator: TerminatorValidator): () => void {
    this.validators.set(binding, validator);
    return () => this.validators.delete(binding);
  }

  identityConnected(connection: IdentityChannel): void {
    this.online.set(connection.connectionId, connection);
  }

  identityDisconnected(connection: IdentityChannel): void {
    this.online.delete(connection.connectionId);
  }

  /** As the controller does: an end that closed takes the circuit down everywhere. */
  sendFault(fault: Fault): void {
    this.#network.faults.push(fault);
    if (fault.subject > 1) return;
    for (const id of fault.ids) this.#network.unroute(id, false);
  }

  // The test's levers -------------------------------------------------------------------------------------------------

  removeApiSession(session: ApiSessionRecord): void {
    this.#network.apiSessions.delete(session.token);
    this.#apiSessionRemoved.emit(session);
  }

  removeSession(token: string): void {
    this.#network.sessions.delete(token);
    this.removedSessions.add(token);
    this.#sessionRemoved.emit(token);
  }

  loseTerminator(id: string, outcome: TerminatorAnswer): void {
    this.#terminatorLost.emit(id, outcome);
  }
}
