/** Content types between an application's SDK and an edge router (docs/protocol/edge.md "Messages"). */
export const EdgeType = {
  Connect: 60783,
  StateConnected: 60784,
  StateClosed: 60785,
  Data: 60786,
  Dial: 60787,
  DialSuccess: 60788,
  DialFailed: 60789,
  Bind: 60790,
  Unbind: 60791,
  StateSessionEnded: 60792,
  Probe: 60793,
  UpdateBind: 60794,
  HealthEvent: 60795,
  TraceRoute: 60796,
  TraceRouteResponse: 60797,
  ConnInspectRequest: 60798,
  ConnInspectResponse: 60799,
  BindSuccess: 60800,
  UpdateTokenSuccess: 60801,
  UpdateTokenFailure: 60802,
  UpdateToken: 60803,
  InspectRequest: 60804,
  InspectResponse: 60805,
  /** Of later routers, only after they advertised them. */
  ConnectV2: 60806,
  RouteCircuit: 60807,
  PostureResponse: 10800,
  ServicePostureStateRequest: 108001,
  ServicePostureStateResponse: 108002,
  /** Service subscriptions, of routers that advertise them. */
  SubscribeToServiceUpdates: 10900,
  UnsubscribeFromServiceUpdates: 10901,
  ResyncPostureState: 10902,
  ServiceChangeSet: 10903,
  PostureStateChange: 10904,
} as const;

/** Headers between an SDK and an edge router (docs/protocol/edge.md "Headers"). */
export const EdgeHeader = {
  /** Optional trace id of a Data message, 16 bytes. */
  Uuid: 128,
  /** u32, in every edge message; 0 is a valid id. */
  ConnId: 1000,
  Seq: 1001,
  SessionToken: 1002,
  PublicKey: 1003,
  Cost: 1004,
  Precedence: 1005,
  TerminatorIdentity: 1006,
  TerminatorIdentitySecret: 1007,
  CallerId: 1008,
  CryptoMethod: 1009,
  Flags: 1010,
  AppData: 1011,
  /** Bind, Connect and StateConnected: bool. Dial: u32, the id of the new connection. */
  RouterProvidedConnId: 1012,
  HealthStatus: 1013,
  ErrorCode: 1014,
  Timestamp: 1015,
  TraceHopCount: 1016,
  TraceHopType: 1017,
  TraceHopId: 1018,
  TraceSourceRequestId: 1019,
  TraceError: 1020,
  ListenerId: 1021,
  ConnType: 1022,
  SupportsInspect: 1023,
  SupportsBindSuccess: 1024,
  ConnectionMarker: 1025,
  CircuitId: 1026,
  StickinessToken: 1027,
  UseXgressToSdk: 1028,
  XgressCtrlId: 1029,
  XgressAddress: 1030,
  InspectRequestedValues: 1031,
  SupportsPostureChecks: 1032,
  StructuredError: 1033,
  DialerIdentityId: 1034,
  DialerIdentityName: 1035,
  /** ConnectV2: id or name of the service. */
  ServiceId: 1036,
  /** ConnectV2: one byte, see `ServiceIdentifierType`. */
  ServiceIdentifierType: 1037,
  ConnectRequestId: 1038,
  /** Result of the hello: bits of `RouterCapability`, big-endian. */
  RouterCapabilities: 1039,
  /** Reserved: never sent, never read. */
  ServiceSubscriptionIndex: 1040,
} as const;

/** Bits of the Flags header of a Data message. */
export const EdgeFlag = {
  /** The sender will send nothing more. */
  Fin: 1,
  TraceUuid: 2,
  /** The sender understands multipart bodies. */
  Multipart: 4,
  /** The sender is a byte stream: message boundaries mean nothing to it. */
  Stream: 8,
  /** This body is a list of parts. */
  MultipartMessage: 16,
} as const;

/** Values of the ConnType header of an inspect response. */
export const ConnType = { Invalid: 0, Dial: 1, Bind: 2, Unknown: 3 } as const;

/** What the ServiceId header of a ConnectV2 names. */
export const ServiceIdentifierType = { Id: 0, Name: 1 } as const;

/** Values of the ErrorCode header, on edge and control channels. */
export const EdgeErrorCode = {
  Internal: 1,
  InvalidApiSession: 2,
  InvalidSession: 3,
  WrongSessionType: 4,
  InvalidEdgeRouterForSession: 5,
  InvalidService: 6,
  TunnelingNotEnabled: 7,
  InvalidTerminator: 8,
  InvalidPrecedence: 9,
  InvalidCost: 10,
  EncryptionDataMissing: 11,
  InvalidApiSessionType: 12,
  InvalidInstanceId: 13,
  AccessDenied: 14,
  /** A policy grants access, and its posture checks fail. */
  PostureCheckFailed: 15,
} as const;

/** What a client does with a refusal of the ErrorCode header. */
export const RetryHint = {
  /** It tries again as it always does. */
  Default: 0,
  /** It waits before it tries again. */
  TooBusy: 1,
  /** It logs in again, or asks for a new session, before it tries again. */
  StartOver: 2,
  NotRetriable: 3,
} as const;
export type RetryHint = (typeof RetryHint)[keyof typeof RetryHint];

/** Connection ids that a router gives out start here; an SDK's own ids are below. */
export const FIRST_ROUTER_CONN_ID = 0x8000_0000;

/** Application protocol name of edge channels. */
export const EDGE_ALPN = "ziti-edge";

/**
 * Begins the text with which a router that is about to stop refuses a dial: nothing is wrong with the service, and another
 * router will do (docs/protocol/edge.md, "Dialling").
 */
export const ROUTER_STOPPING = "this router is stopping";

/**
 * How a terminator ranks before its cost counts: required before default before failed. Values of the Precedence header and of every
 * message about a terminator or an identity's hosting (docs/protocol/edge.md, "Headers").
 */
export const Precedence = { Default: 0, Required: 1, Failed: 2 } as const;
export type Precedence = (typeof Precedence)[keyof typeof Precedence];

/** The same in APIs, configurations and events. */
export type PrecedenceName = "default" | "required" | "failed";

const NAMES: readonly PrecedenceName[] = ["default", "required", "failed"];

/** The number that stands for a name on the wire. */
export function precedenceOf(name: PrecedenceName): Precedence {
  return NAMES.indexOf(name) as Precedence;
}

/** The name of a number of the wire; undefined for a number that stands for none. */
export function precedenceName(value: number): PrecedenceName | undefined {
  return NAMES[value];
}

/** The same number; a number that stands for no precedence counts as default. */
export function knownPrecedence(value: number): Precedence {
  return NAMES[value] === undefined ? Precedence.Default : (value as Precedence);
}

/** Bindings of the terminators that a router makes for its SDK clients and for its own tunneler. */
export const RouterBinding = { Edge: "edge", Tunnel: "tunnel" } as const;
