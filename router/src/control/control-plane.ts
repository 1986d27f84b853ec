import type { ApiSessionRecord, Precedence, RetryHint, TerminatorResult } from "@sallyport/wire";
import type { Fault } from "../forwarder/fault-reports.ts";

/** By what an SDK may do something. */
export interface SdkCredentials {
  /** Of its dial or bind session. */
  readonly sessionToken: string;
  readonly apiSessionToken: string;
  /** SHA-1 fingerprints (40 hex characters) of the SDK's certificates, leaf first. */
  readonly fingerprints: readonly string[];
}

/** What the dials of SDK clients have in common. */
interface DialRequest {
  /** Which instance of the service is wanted; absent or empty: any. */
  readonly instanceId?: string | undefined;
  /** Peer data by key (1003 public key, 1008 caller id, 1011 app data, ...), passed to the terminating side. */
  readonly peerData: ReadonlyMap<number, Buffer>;
  readonly timeoutMs: number;
}

/** A dial that an SDK client asked for (docs/protocol/control.md, "Circuits"). */
export interface SdkCircuitRequest extends DialRequest, SdkCredentials {}

/** A dial by an access token, without a dial session. */
export interface ServiceCircuitRequest extends DialRequest, Omit<SdkCredentials, "sessionToken"> {
  readonly serviceId: string;
  /** Whose token it is. */
  readonly identityId: string;
}

/** A circuit the controller has built: the caller registers its xgress at `address`. */
export interface CircuitCreated {
  readonly circuitId: string;
  /** Xgress address of the initiating side on this router. */
  readonly address: string;
  /** What the terminating side answered. */
  readonly peerData: Map<number, Buffer>;
  readonly tags: Map<string, string>;
  /** Owner of the circuit: faults, confirmations go to it. */
  readonly controllerId: string;
}

/** What is kept of a terminator, for each kind of host. */
export interface KeptTerminator {
  /** Also its id: chosen by the router, kept for all retries. */
  readonly address: string;
  /** 0..65535 */
  readonly cost: number;
  readonly precedence: Precedence;
  readonly instanceId?: string | undefined;
}

/** A terminator an SDK hosts on this router. */
export interface TerminatorRequest extends KeptTerminator, SdkCredentials {
  readonly peerData: ReadonlyMap<number, Buffer>;
  readonly instanceSecret?: Uint8Array | undefined;
}

/** `message` says why when `result` is not success; the code and the hint are absent in answers of older controllers. */
export interface TerminatorAnswer {
  readonly terminatorId: string;
  readonly result: TerminatorResult;
  readonly message: string;
  readonly errorCode?: number | undefined;
  readonly retryHint?: RetryHint | undefined;
}

export interface TerminatorUpdate extends SdkCredentials {
  readonly terminatorId: string;
  readonly cost?: number;
  readonly precedence?: Precedence;
}

export interface HealthEvent extends SdkCredentials {
  readonly terminatorId: string;
  readonly checkPassed: boolean;
}

/** One terminator the controller asks about. */
export interface TerminatorQuery {
  readonly id: string;
  readonly binding: string;
  readonly address: string;
}

/** `reason`: 0 unknown binding, 1 unknown terminator, 2 bad state; only looked at when invalid. */
export interface TerminatorVerdict {
  readonly valid: boolean;
  readonly reason?: 0 | 1 | 2;
  readonly detail?: string;
}

/**
 * Answers for one binding whether its terminators exist. `fixInvalid`: the binding also drops what it holds itself of
 * a terminator it calls invalid.
 */
export type TerminatorValidator = (
  terminator: TerminatorQuery,
  fixInvalid: boolean,
) => TerminatorVerdict | Promise<TerminatorVerdict>;

/** One SDK channel of an identity, for the connect reports. */
export interface IdentityChannel {
  readonly identityId: string;
  /** Unique per channel, made by the caller. */
  readonly connectionId: string;
  /** `ip:port` of both ends. */
  readonly remoteAddress: string;
  readonly localAddress: string;
}

export type Unsubscribe = () => void;

/**
 * What the edge listener and the forwarder need from the controllers. Every method works while no controller is
 * connected: requests reject with {@link NoControllerError}, reports are sent after the reconnect when they still matter.
 */
export interface ControlPlane {
  /** Subject CN of the router's client certificate. */
  readonly routerId: string;
  isConnected(): boolean;
  /**
   * The API session of a token, waited for until it is announced or `timeoutMs` has passed (then `undefined`).
   * Rejects only with the signal's reason.
   */
  findApiSession(token: string, o: { signal?: AbortSignal; timeoutMs: number }): Promise<ApiSessionRecord | undefined>;
  /** The session was removed (logout, expiry, deleted, or absent from a full synchronisation). */
  onApiSessionRemoved(callback: (session: ApiSessionRecord) => void): Unsubscribe;
  /** Same session, other certificate fingerprints. */
  onApiSessionUpdated(callback: (session: ApiSessionRecord) => void): Unsubscribe;
  /** A dial or bind session (by token) was removed: its connections and terminators end. */
  onSessionRemoved(callback: (sessionToken: string) => void): Unsubscribe;
  /** True for 5 minutes after a session token was removed: a later bind or dial with it is refused at once. */
  wasSessionRemoved(sessionToken: string): boolean;
  /**
   * Who uses which tokens now: asked every heartbeat interval (API sessions) and after a reconnect (opaque session
   * tokens), so that the controllers keep the first alive and name the unknown of the second.
   */
  setTokenSource(source: { apiSessionTokens(): Iterable<string>; sessionTokens(): Iterable<string> }): void;
  /** Throws {@link EdgeCtrlError}, {@link NoControllerError}, or wire's timeout and closed errors. */
  createCircuit(request: SdkCircuitRequest): Promise<CircuitCreated>;
  /** Whether every connected controller makes circuits by service. */
  readonly takesServiceCircuits: boolean;
  /** The same by service. A controller that is too old for it refuses. */
  createServiceCircuit(request: ServiceCircuitRequest): Promise<CircuitCreated>;
  /**
   * Creates the terminator and keeps it: it is sent again when busy, when no answer came, and after a reconnect unless
   * the controller confirmed it, until `removeTerminators`. Resolves with the first final outcome, rejects with the
   * signal's reason only. A final failure later on (e.g. the session is gone) is told to `onTerminatorLost`.
   */
  createTerminator(request: TerminatorRequest, o?: { signal?: AbortSignal }): Promise<TerminatorAnswer>;
  /** The API session has another token from now on: what is sent again is sent with it. */
  renewCredentials(terminatorId: string, credentials: SdkCredentials): void;
  onTerminatorLost(callback: (terminatorId: string, outcome: TerminatorAnswer) => void): Unsubscribe;
  /** Forgets these terminators and has them removed, in batches of at most 50, until a controller took it. */
  removeTerminators(ids: readonly string[]): void;
  /** Throws {@link EdgeCtrlError}. */
  updateTerminator(update: TerminatorUpdate): Promise<void>;
  healthEvent(event: HealthEvent): void;
  /** One validator per binding (`edge`, `transport`, ...); a binding without one counts as unknown. */
  onValidateTerminators(binding: string, validator: TerminatorValidator): Unsubscribe;
  identityConnected(connection: IdentityChannel): void;
  identityDisconnected(connection: IdentityChannel): void;
  sendFault(fault: Fault): void;
}
