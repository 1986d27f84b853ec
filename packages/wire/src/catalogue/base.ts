/** Content types that every channel knows, whatever it carries (docs/protocol/channel.md "Content types"). */
export const BaseType = {
  Hello: 0,
  Ping: 1,
  Result: 2,
  Latency: 3,
  LatencyResponse: 4,
  Heartbeat: 5,
  /** Marks a datagram inside a process; never a frame. */
  Raw: 6,
  /** Written by a reconnecting dialer to learn whether its connection still works; ignored. */
  ReconnectPing: -33,
} as const;

/** Header ids of the channel layer. Link and control hellos give some of them other meanings: see their catalogues. */
export const BaseHeader = {
  ConnectionId: 0,
  ReplyFor: 1,
  ResultSuccess: 2,
  HelloRouterAdvertisements: 3,
  HelloVersion: 4,
  Heartbeat: 5,
  HeartbeatResponse: 6,
  Type: 7,
  Id: 8,
  IsGrouped: 9,
  GroupSecret: 10,
  IsFirstGroupConnection: 11,
  UnderlayType: 12,
  /** In a failed hello result of newer listeners: u32, 1 busy, 2 not permitted. */
  RefusalReason: 13,
  /** Latency probe time, or trace id. Reflected into the reply. */
  Correlation: 128,
} as const;

/** Ids of headers that a reply copies from its request, both ends included. */
export const ReflectedHeaders = { first: 128, last: 255 } as const;
