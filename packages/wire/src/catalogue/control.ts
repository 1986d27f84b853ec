/** Content types of the control channel: fabric 1000 to 1056 (docs/protocol/control.md "Messages"). */
export const ControlType = {
  CircuitRequest: 1000,
  CircuitSuccess: 1001,
  Dial: 1002,
  LinkConnected: 1003,
  Fault: 1004,
  Route: 1005,
  Unroute: 1006,
  Metrics: 1007,
  TogglePipeTracesRequest: 1008,
  TraceEvent: 1010,
  CreateTerminatorRequest: 1011,
  RemoveTerminatorRequest: 1012,
  InspectRequest: 1013,
  InspectResponse: 1014,
  CircuitFailed: 1016,
  ValidateTerminatorsRequest: 1017,
  UpdateTerminatorRequest: 1018,
  Settings: 1020,
  RouteResult: 1022,
  CircuitConfirmation: 1034,
  RouterLinks: 1035,
  VerifyRouter: 1036,
  UpdateCtrlAddresses: 1037,
  RemoveTerminatorsRequest: 1038,
  QuiesceRouter: 1039,
  DequiesceRouter: 1040,
  ValidateTerminatorsV2Request: 1041,
  ValidateTerminatorsV2Response: 1042,
  DecommissionRouter: 1043,
  PeerStateChanges: 1050,
  UpdateClusterLeader: 1051,
  RouterInterfacesUpdate: 1052,
  LinkStateUpdate: 1053,
  /** From here on: of OpenZiti 2.x. */
  Alerts: 1054,
  RequestClusterMembers: 1055,
  UpdateLinkListeners: 1056,
} as const;

/** Content types of the control channel: edge, 20000 to 20506 (docs/protocol/control.md "Messages"). */
export const EdgeCtrlType = {
  ServerHello: 20000,
  ClientHello: 20001,
  Error: 20002,
  SessionRemoved: 20102,
  ApiSessionAdded: 20200,
  ApiSessionUpdated: 20201,
  ApiSessionRemoved: 20202,
  ApiSessionHeartbeat: 20203,
  RequestClientReSync: 20204,
  CreateCircuitRequest: 20205,
  CreateCircuitResponse: 20206,
  CreateTerminatorRequest: 20207,
  CreateTerminatorResponse: 20208,
  UpdateTerminatorRequest: 20209,
  UpdateTerminatorResponse: 20210,
  RemoveTerminatorRequest: 20211,
  RemoveTerminatorResponse: 20212,
  ValidateSessionsRequest: 20213,
  HealthEvent: 20214,
  CreateTerminatorV2Request: 20216,
  CreateTerminatorV2Response: 20217,
  CreateCircuitV2Request: 20218,
  CreateCircuitV2Response: 20219,
  CreateTunnelCircuitV2Request: 20220,
  CreateTunnelCircuitV2Response: 20221,
  CreateCircuitV3Request: 20222,
  CreateCircuitV3Response: 20223,
  EnrollmentCertsResponse: 20301,
  EnrollmentExtendRouterRequest: 20302,
  EnrollmentExtendRouterVerifyRequest: 20303,
  CreateApiSessionRequest: 20400,
  CreateApiSessionResponse: 20401,
  CreateCircuitForServiceRequest: 20402,
  CreateCircuitForServiceResponse: 20403,
  ListServicesRequest: 20404,
  ServicesList: 20405,
  CreateTunnelTerminatorRequest: 20406,
  CreateTunnelTerminatorResponse: 20407,
  UpdateTunnelTerminatorRequest: 20408,
  UpdateTunnelTerminatorResponse: 20409,
  RemoveTunnelTerminatorRequest: 20410,
  RemoveTunnelTerminatorResponse: 20411,
  TunnelHealthEvent: 20412,
  CreateTunnelTerminatorV2Request: 20413,
  CreateTunnelTerminatorV2Response: 20414,
  ConnectEvents: 20415,
  DataState: 20500,
  DataStateChangeSet: 20501,
  ValidateDataStateRequest: 20503,
  ValidateDataStateResponse: 20504,
  SubscribeToDataModel: 20505,
  CurrentIndex: 20506,
} as const;

/** Headers of a router's hello and of the controller's result. */
export const ControlHello = {
  /** Hello and result: version info of the sender. */
  Version: 4,
  /** Router hello: protobuf `Listeners`. */
  Listeners: 10,
  /** Router hello: protobuf `RouterMetadata`. */
  RouterMetadata: 11,
  /** Result: capability bits, big-endian. */
  Capabilities: 12,
  /** Result: protobuf with the controller's API addresses. */
  ApiAddresses: 13,
  /**
   * OpenZiti 2.x: the same under numbers that do not collide with those of grouped channels. A router's hello has 10, 11 and 12 in their
   * channel meaning when its `CapabilitiesV2` has the bit `RouterCapability.MultiChannel`.
   */
  ListenersV2: 1000,
  RouterMetadataV2: 1001,
  /** Hello: bits of `RouterCapability`. Result: bits of `ControllerCapability`, as in `Capabilities`. */
  CapabilitiesV2: 1002,
  /** Hello: protobuf `CtrlChanListeners`, where controllers could dial the router. */
  CtrlChanListeners: 1003,
} as const;

/** Names of the underlays of a grouped control channel, header 7 of their hellos. */
export const ControlUnderlay = {
  Default: "ctrl.default",
  /** Carries what circuits wait for. */
  High: "ctrl.high",
  Low: "ctrl.low",
} as const;

/** Bits of the channel mask in a route's context: what of a traced circuit is told. */
export const TraceChannel = { SelectPath: 1, EstablishPath: 2, All: 0xffff_ffff } as const;

/** Headers of fabric control messages. */
export const ControlHeader = {
  /** Failed result: u32, 1 = too busy, try again later. */
  RateLimited: 10,
  /** CircuitSuccess: the xgress address of the initiating side. */
  CircuitSuccessAddress: 1100,
  RouteResultAttempt: 1101,
  /** Its presence means success, whatever its value. */
  RouteResultSuccess: 1102,
  RouteResultError: 1103,
  /** One byte, see `RouteErrorCode`. */
  RouteResultErrorCode: 1104,
  /** Fault, CircuitConfirmation, of Sallyport alone: id of the circuits' controller, to which the router is not connected. */
  CircuitOwner: 1120,
} as const;

/** Headers of CreateCircuitV2 and V3; a request and its response share numbers with different meanings. */
export const CreateCircuitHeader = {
  PeerData: 10,
  SessionToken: 11,
  Fingerprints: 12,
  TerminatorInstanceId: 13,
  ApiSessionToken: 14,
  IdentityId: 15,
  ServiceId: 16,
  RequestedCircuitId: 17,
  ResponseCircuitId: 11,
  ResponseAddress: 12,
  ResponseTags: 13,
} as const;

/** Headers of other edge control messages. */
export const EdgeCtrlHeader = {
  /** ApiSessionAdded and Updated: name of the synchronisation strategy, `instant`. */
  SyncStrategyType: 1013,
  /** ApiSessionAdded: JSON `{id, isLast, sequence}`. */
  SyncStrategyState: 1014,
  /** Error: u32, see `EdgeErrorCode`. */
  ErrorCode: 1014,
  TerminatorId: 1022,
  CheckPassed: 1023,
  /** ServerHello and ClientHello: the sender knows the router data model. */
  DataModel: 1024,
  /** CurrentIndex, ClientHello: u64. */
  DataModelIndex: 1025,
  /** Error of a circuit request: the circuit it is about. */
  CircuitId: 1026,
  /** DataState and ChangeSet: the id of the subscription they belong to. The number is that of `CircuitId`, on other messages. */
  SubscriptionId: 1026,
  /** Error: u32, see `RetryHint`. */
  RetryHint: 18,
} as const;

/** Keys of the peer data that travels with circuits and terminators. */
export const PeerData = {
  PublicKey: 1003,
  CallerId: 1008,
  AppData: 1011,
  ConnectionMarker: 1025,
  TerminatorLocalAddress: 1110,
  TerminatorRemoteAddress: 1111,
  InitiatorLocalAddress: 1112,
  InitiatorRemoteAddress: 1113,
  StickinessToken: 1114,
  DialerIdentityId: 1115,
  DialerIdentityName: 1116,
} as const;

/** Why a route could not be set up: header 1104 of a RouteResult. */
export const RouteErrorCode = {
  Generic: 0,
  InvalidTerminator: 1,
  MisconfiguredTerminator: 2,
  DialTimedOut: 3,
  ConnectionRefused: 4,
  /** From here on: of OpenZiti 2.x. */
  RejectedByApplication: 5,
  DnsFailed: 6,
  PortNotAllowed: 7,
  InvalidLinkDestination: 8,
  NoResources: 9,
} as const;

/** Peer data in the headers of a message has keys from here on; smaller keys belong to the channel (docs/protocol/fabric.md, "Peer data"). */
export const FIRST_PEER_DATA_KEY = 128;

/** Bytes that the mark of a list of services may have, as version 1 of the tunneling messages has it. */
export const MAX_SERVICE_LIST_MARK = 50;

/** Where a forward leads, and what a fault is about. */
export { DestType as DestinationType, FaultSubject } from "../generated/ctrl_pb.ts";
/** Outcome of the creation of a terminator. */
export { CreateTerminatorResult as TerminatorResult } from "../generated/edge_ctrl_pb.ts";

/** Application protocol name of control channels. */
export const CONTROL_ALPN = "ziti-ctrl";

/** Names under which programs can be inspected and that another program asks for (docs/protocol/control.md, "Inspect"). */
export const InspectionKey = {
  CircuitRoutes: "circuit-routes",
  IdentityConnections: "identity-connection-statuses",
  Links: "links",
  RouterCircuits: "router-circuits",
  RouterDataModel: "router-data-model",
  SdkTerminators: "sdk-terminators",
  TunnelTerminators: "ert-terminators",
} as const;

/** A right on a service: what a policy grants, and what a session was made for. */
export type Permission = "Dial" | "Bind";

/** An API session as controllers announce it to routers (docs/protocol/control.md, "API sessions"). */
export interface ApiSessionRecord {
  /** Grows as text with time: routers drop what a synchronisation did not list up to the greatest id. */
  readonly id: string;
  readonly token: string;
  readonly identityId: string;
  /** SHA-1 fingerprints (40 lower-case hex characters) of the certificates that may use the session. */
  readonly certFingerprints: readonly string[];
}

/** The only strategy by which controllers and routers synchronise API sessions, as `EdgeCtrlHeader.SyncStrategyType` names it. */
export const SYNC_STRATEGY = "instant";

/** Headers that a router's API proxy adds to a request: when the router passed it on, and the client's certificates (docs/protocol/edge.md, "API proxy"). */
export const ProxiedRequestHeader = {
  PassedOnAt: "x-edge-router-proxy-request",
  ClientCertificate: "x-client-certpem",
} as const;
