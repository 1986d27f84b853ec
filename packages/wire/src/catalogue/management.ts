/** Content types of the management channel (docs/protocol/management.md). */
export const ManagementType = {
  StreamEventsRequest: 10040,
  StreamEventsEvent: 10041,
  TogglePipeTracesRequest: 10044,
  ToggleCircuitTracesRequest: 10045,
  StreamTracesRequest: 10046,
  StreamTracesEvent: 10047,
  InspectRequest: 10048,
  InspectResponse: 10049,
  SnapshotDatabase: 10070,
  ForgetLink: 10071,
  ToggleControlChannel: 10072,
  UpdateRoute: 10073,
  DumpForwarderTables: 10074,
  DumpLinks: 10075,
  Unroute: 10076,
  QuiesceRouter: 10077,
  DequiesceRouter: 10078,
  DecommissionRouter: 10079,
  ClusterListMembers: 10080,
  ClusterMembers: 10081,
  ClusterAddMember: 10082,
  ClusterRemoveMember: 10083,
  ClusterTransferLeadership: 10084,
  ClusterInitFromDatabase: 10085,
  ClusterInit: 10086,
  ClusterRestoreFromDatabase: 10087,
  ValidateTerminators: 10100,
  ValidateRouterLinks: 10103,
  ValidateSdkTerminators: 10106,
  ValidateRouterDataModel: 10109,
  ValidateIdentityConnections: 10112,
  ValidateErtTerminators: 10115,
  ValidateCircuits: 10118,
  /** Of controllers that dial routers. */
  ValidateControllerDialers: 10122,
} as const;

/** A validation's request is answered by the type after it, and each result has the one after that. */
export const ValidationReply = { response: 1, result: 2 } as const;

/** Headers of the management channel. */
export const ManagementHeader = {
  /** Namespace of an event. */
  EventType: 10,
  /** bool: whether a control channel is to be up. */
  ControlChannelToggle: 11,
  ControllerId: 12,
  /** Ours: which router a request to one is for. */
  RouterId: 13,
} as const;

/** Headers of requests about members of a cluster, which number theirs as the requests to a local agent do. */
export const ClusterHeader = {
  /** Text: the member that is meant. */
  MemberId: 10,
} as const;
