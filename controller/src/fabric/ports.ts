/**
 * The seam between the fabric and the model: what the fabric needs to know, what it wants remembered, and the changes it has to hear of.
 *
 * The fabric owns everything that lives only as long as a control channel (connected routers, links, circuits, dynamic costs). Everything that
 * outlives one (routers, sessions, services, policies, terminators) belongs to the model, which implements {@link FabricModel}. Refusals that a router
 * or an SDK has to see are values ({@link Denial}); a rejected promise means that the store failed. The router is told to try again later
 * where that passes by itself ({@link isPassing}), and of an internal error otherwise.
 *
 * Source: docs/protocol/fabric.md.
 */

import {
  type ApiSessionRecord,
  EdgeErrorCode,
  type Permission,
  type PrecedenceName,
  type VersionInfo,
} from "@sallyport/wire";
import type { AccessQuestion, ModelChange } from "./change-port.ts";
import type { DataModelSource } from "./data-model/data-model-source.ts";

/** A router entity as the fabric needs it. */
export interface RouterRecord {
  readonly id: string;
  /** `edge`: an edge router, which gets API sessions; `transit`: forwards only. */
  readonly kind: "edge" | "transit";
  /** Lower-case hex SHA-1 of the client leaf certificate; absent until enrolled. */
  readonly fingerprint?: string;
  readonly isDisabled: boolean;
  /** It acts for an identity of its own id. */
  readonly isTunneler: boolean;
  /** Added to a path for entering this router, 0…65535. */
  readonly cost: number;
  /** True: only the first or the last router of a path. */
  readonly noTraversal: boolean;
}

/** What a router says about itself in its hello and ClientHello; stored on the router entity. */
export interface RouterReport {
  readonly routerId: string;
  readonly version: VersionInfo;
  /** Host name the router announces (ClientHello, deprecated by newer routers). */
  readonly hostname: string;
  /** Groups by address where controllers could dial it; undefined: it does not say. */
  readonly ctrlChanListeners: Readonly<Record<string, readonly string[]>> | undefined;
}

export interface RouterInterface {
  readonly name: string;
  readonly hardwareAddress: string;
  readonly mtu: number;
  readonly index: number;
  readonly flags: number;
  readonly addresses: readonly string[];
}

export interface RouterConfig {
  readonly id: string;
  readonly typeId: string;
  readonly name: string;
  /** JSON. */
  readonly data: string;
}

/** A router as it is told of itself. */
export interface RouterConfigs {
  readonly id: string;
  readonly name: string;
  /** Empty until it is enrolled. */
  readonly fingerprint: string;
  readonly configs: readonly RouterConfig[];
  readonly isDisabled: boolean;
}

/** Why a router's request is refused; the numbers are those of the edge error header. */
export const DenialCode = EdgeErrorCode;
/** The codes without the two that no check of the controller answers. */
export type DenialCode = Exclude<
  (typeof EdgeErrorCode)[keyof typeof EdgeErrorCode],
  typeof EdgeErrorCode.InvalidApiSessionType | typeof EdgeErrorCode.InvalidInstanceId
>;

/** A refusal. `message` is optional: without it the fabric uses the standard text of the code. */
export interface Denial {
  readonly denied: DenialCode;
  readonly message?: string;
  /** Of {@link DenialCode.PostureCheckFailed}: the checks that fail. */
  readonly failingCheckIds?: readonly string[];
}

/** How one of a service's terminators is chosen. */
const TERMINATOR_STRATEGIES = ["smartrouting", "weighted", "random", "sticky"] as const;
export type TerminatorStrategy = (typeof TERMINATOR_STRATEGIES)[number];

export function isTerminatorStrategy(name: string): name is TerminatorStrategy {
  return (TERMINATOR_STRATEGIES as readonly string[]).includes(name);
}

/** A service as far as circuits need it. */
export interface CircuitService {
  readonly id: string;
  readonly name: string;
  /** A {@link TerminatorStrategy}, or one that this controller does not know. */
  readonly terminatorStrategy: string;
  readonly encryptionRequired: boolean;
  /** 0 = never removed for being idle. */
  readonly maxIdleTimeMs: number;
}

/** Tokens as they come with a dial or a bind. `apiSessionToken` may be empty: then only the session's own API session is checked. */
export interface SessionClaim {
  readonly sessionToken: string;
  readonly apiSessionToken: string;
  readonly routerId: string;
  /** The router has evaluated the posture checks of an identity with an access token. */
  readonly checksPosture: boolean;
}

/** A dial of a service without a session: the access token alone proves the identity, whatever `identityId` says. */
export interface ServiceClaim {
  readonly serviceId: string;
  readonly identityId: string;
  readonly apiSessionToken: string;
  readonly routerId: string;
  readonly checksPosture: boolean;
}

/** The answer to an accepted dial or bind. */
export interface SessionGrant {
  /** `session`: it lasts as long as the session. `token`: as long as the identity has the right, and neither it nor its API session is revoked. */
  readonly kind: "session" | "token";
  /** Of an access token. */
  readonly tokenIssuedAt?: Date;
  readonly identityId: string;
  /** Empty for a dial of a service without a session. */
  readonly sessionId: string;
  readonly apiSessionId: string;
  readonly service: CircuitService;
}

export interface TerminatorRecord {
  readonly id: string;
  readonly serviceId: string;
  readonly routerId: string;
  readonly binding: string;
  readonly address: string;
  /** Empty = none. */
  readonly instanceId: string;
  readonly instanceSecret?: Uint8Array;
  /** Static cost, 0…65535. */
  readonly cost: number;
  readonly precedence: PrecedenceName;
  readonly peerData: ReadonlyMap<number, Uint8Array>;
  /** The identity that hosts; empty when created by a router or an administrator. */
  readonly hostId: string;
  readonly createdAt: Date;
  /** Another one after each change of what is stored, and each time when a router asks for it again; absent where it is not needed. */
  readonly version?: string;
}

/** A terminator to create. Without `id` the model makes one. */
export type NewTerminator = Omit<TerminatorRecord, "id" | "createdAt" | "version"> & {
  readonly id?: string | undefined;
};

/**
 * Outcome of {@link FabricModel.createTerminator}.
 * `existing`: the id is known with the same binding, service, router and host; cost and precedence are now those given (a router's retry).
 * `conflict`: the id is known and anything of that differs. `denied`: the host may not host the service any more. `rejected`: the entity is refused (service gone, instance id used by another identity, …).
 */
export type TerminatorOutcome =
  | { readonly outcome: "created" | "existing"; readonly terminator: TerminatorRecord }
  | { readonly outcome: "conflict" | "denied" | "rejected"; readonly message: string };

export interface CertificateExtension {
  /** Leaf and intermediates, PEM. */
  readonly clientCertPem: string;
  readonly serverCertPem: string;
  /** The network's trust anchors, PEM, for routers whose bundle is older than a rotation. */
  readonly caCertsPem?: string;
}

/** The codes a verification of a renewed certificate is answered with. */
export type CertificateVerifyCode =
  | "MISSING_CLIENT_PEM"
  | "INVALID_ROUTER_STATE"
  | "INVALID_CLIENT_PEM"
  | "VERIFY_ERROR"
  | "ROUTER_NOT_FOUND";

/** The API session of a router that acts as a tunneler (the identity with the router's own id). */
export interface TunnelApiSession {
  readonly id: string;
  readonly token: string;
  readonly identityId: string;
  readonly identityName: string;
  /** Seconds until the router should refresh: session timeout less 10. */
  readonly refreshIntervalSeconds: number;
  readonly defaultHostingPrecedence: PrecedenceName;
  readonly defaultHostingCost: number;
  readonly appDataJson: string;
  readonly servicePrecedences: ReadonlyMap<string, PrecedenceName>;
  readonly serviceCosts: ReadonlyMap<string, number>;
}

/** What a tunneling router says about itself when it asks for an API session. */
export interface TunnelClientInfo {
  readonly envInfo: Readonly<Record<"arch" | "os" | "osRelease" | "osVersion" | "hostname" | "domain", string>>;
  readonly sdkInfo: Readonly<Record<"appId" | "appVersion" | "branch" | "revision" | "type" | "version", string>>;
  /** Names of config types whose configs the service list shall hold; `["all"]` = every one. */
  readonly configTypes: readonly string[];
  /** ip:port of the router's control channel. */
  readonly remoteAddress: string;
}

export interface TunnelService {
  readonly id: string;
  readonly name: string;
  readonly permissions: readonly Permission[];
  readonly encryptionRequired: boolean;
  /** JSON object: config type name to its data. */
  readonly configJson: string;
  /** JSON object. */
  readonly tagsJson: string;
}

export interface TunnelSessionRequest {
  readonly routerId: string;
  /** As given by the router; may be empty, old or expired: then the one that lives is used, or a new one made. */
  readonly apiSessionId: string;
  readonly serviceName: string;
  readonly type: Permission;
  readonly remoteAddress: string;
}

export interface TunnelSessionGrant extends SessionGrant {
  readonly sessionToken: string;
  /** Only when it is not the one that the router gave. */
  readonly newApiSession?: TunnelApiSession;
}

/** What a router asked after and is no session any more: its id where that is known, and the token, or what the router gave in its place. */
export interface UnknownSession {
  readonly id?: string;
  readonly token: string;
}

/** A dial or bind of a router's own tunneler without sessions. `service`: name or id. */
export interface TunnelClaim {
  readonly routerId: string;
  readonly service: { readonly name: string } | { readonly id: string };
  readonly type: Permission;
}

export interface TunnelGrant {
  readonly identityId: string;
  readonly service: CircuitService;
}

/** What the fabric needs from the model. Every method is safe to call at any time and concurrently. */
export interface FabricModel {
  /** The network as routers know it. */
  readonly dataModel: DataModelSource;
  /** Calls `handler` for every change from now on; returns how to stop. The handler does not throw. */
  onChange(handler: (change: ModelChange) => void): () => void;

  // Routers
  findRouter(id: string): Promise<RouterRecord | undefined>;
  /** Undefined when there is no such router. */
  routerConfigs(routerId: string): Promise<RouterConfigs | undefined>;
  saveRouterReport(report: RouterReport): Promise<void>;
  saveRouterInterfaces(routerId: string, interfaces: readonly RouterInterface[]): Promise<void>;
  /** Deletes the router entity (decommission). Emits `router-removed`. */
  deleteRouter(routerId: string): Promise<void>;
  /** Saves the precedence of the router's terminators and sets them to failed. */
  quiesceRouter(routerId: string): Promise<void>;
  /** Restores the precedences saved by {@link FabricModel.quiesceRouter}. */
  dequiesceRouter(routerId: string): Promise<void>;

  // Renewal of router certificates over the control channel
  /** Finds the router by the certificate its channel was opened with and signs both requests. `refused` is the reason that the router gets. */
  extendRouterCertificates(request: {
    readonly fingerprint: string;
    readonly clientCsrPem: string;
    readonly serverCsrPem: string;
    /** True: the new certificate counts only after {@link FabricModel.verifyRouterCertificate}; the old one stays valid until then. */
    readonly requireVerification: boolean;
  }): Promise<CertificateExtension | { readonly refused: string }>;
  /** Promotes the pending certificate; undefined = done. */
  verifyRouterCertificate(request: {
    readonly fingerprint: string;
    readonly clientCertPem: string;
  }): Promise<{ readonly code: CertificateVerifyCode; readonly message: string } | undefined>;

  // API sessions and sessions
  /** Up to `limit` fully authenticated sessions with an id greater (as text, byte order) than `afterId`, in id order. */
  apiSessionsAfter(afterId: string, limit: number): Promise<readonly ApiSessionRecord[]>;
  /** Resolves when `onChange` has told everything that was committed before this call, by other controllers too. A handler must not wait for it. */
  changesRead(): Promise<void>;
  /** Notes activity for the known tokens (batched writes are fine) and returns the tokens that are unknown. */
  touchApiSessions(tokens: readonly string[]): Promise<readonly string[]>;
  /** Those of `tokens`, or ids, that are no session any more. `id`: what the router gave is one. */
  unknownSessions(tokens: readonly string[]): Promise<readonly UnknownSession[]>;

  // Authorisation. Order of the checks and codes: session (3), API session (2), type (4), router access of identity and service (5), service (6)
  authorizeDial(claim: SessionClaim): Promise<SessionGrant | Denial>;
  authorizeBind(claim: SessionClaim): Promise<SessionGrant | Denial>;
  /** Order of the checks and codes: access token (2), type (4), router access of identity and service (5), service (6). */
  authorizeService(claim: ServiceClaim): Promise<SessionGrant | Denial>;
  /** Those of the questions whose answer is no (any more): policy, a disabled identity, anything that is gone. */
  deniedAccess(questions: readonly AccessQuestion[]): Promise<readonly AccessQuestion[]>;
  /** Those of `ids` that are no session any more. */
  goneSessions(ids: readonly string[]): Promise<readonly string[]>;
  /** Those of `ids` that are no API session any more. */
  goneApiSessions(ids: readonly string[]): Promise<readonly string[]>;
  /** Those of the identities whose tokens are revoked: what was issued in that second, or before. */
  identitiesRevoked(ids: readonly string[]): Promise<readonly { readonly id: string; readonly issuedBefore: Date }[]>;

  // Services and terminators
  findService(idOrName: string): Promise<CircuitService | undefined>;
  /** All terminators of a service; fabric filters by instance id and connected routers. Called for every circuit: keep it cheap. */
  terminatorsOfService(serviceId: string): Promise<readonly TerminatorRecord[]>;
  /** Terminators of a router in id order, up to `limit`, with an id greater than `afterId`. */
  terminatorsOfRouter(routerId: string, afterId: string, limit: number): Promise<readonly TerminatorRecord[]>;
  findTerminator(id: string): Promise<TerminatorRecord | undefined>;
  createTerminator(terminator: NewTerminator): Promise<TerminatorOutcome>;
  /** False when there is no such terminator. `version`: it is changed only if it still has this one. */
  updateTerminator(
    id: string,
    change: { readonly cost?: number; readonly precedence?: PrecedenceName },
    version?: string,
  ): Promise<boolean>;
  /** Terminators of applications whose identity hosts the service, and has no session for that any more. */
  hostedWithoutSession(of: readonly AccessQuestion[]): Promise<readonly TerminatorRecord[]>;
  /** Deletes those of `ids` that belong to `routerId`; other ids are left alone without a word. Returns the deleted ids. */
  deleteTerminators(routerId: string, ids: readonly string[]): Promise<readonly string[]>;
  /** The same of those that still have their `version`: none that was changed, or asked for again, at this controller or another one, since it was read. */
  deleteUnchanged(
    routerId: string,
    terminators: readonly Pick<TerminatorRecord, "id" | "version">[],
  ): Promise<readonly string[]>;

  // Embedded tunneler of a router, protocol version 1. Denial code 7 when the router has no identity of its own or tunneling is off
  openTunnelApiSession(routerId: string, client: TunnelClientInfo): Promise<TunnelApiSession | Denial>;
  /** `lastUpdate` as handed out before (≤ 50 bytes of text, empty first); undefined = nothing changed since. */
  tunnelServices(
    routerId: string,
    lastUpdate: string,
  ): Promise<{ readonly lastUpdate: string; readonly services: readonly TunnelService[] } | Denial | undefined>;
  /** Protocol version 2, without sessions. Order of the checks and codes: tunneling (7), disabled (14), service (6), policy (14), router access (5). */
  authorizeTunnel(claim: TunnelClaim): Promise<TunnelGrant | Denial>;
  /** Checks identity, service, policy and router access; makes or reuses a session. */
  openTunnelSession(request: TunnelSessionRequest): Promise<TunnelSessionGrant | Denial>;
}

/** True for the refusals among a model's answers. */
export function isDenial(answer: object): answer is Denial {
  return "denied" in answer;
}

/** Does what rejected a call of the model pass by itself, as the end of an outage of the database does? Such errors have `isPassing`. */
export function isPassing(error: unknown): boolean {
  return error instanceof Error && "isPassing" in error && error.isPassing === true;
}
