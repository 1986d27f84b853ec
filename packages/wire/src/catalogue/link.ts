/** Headers of a link's hello. Inside it, and only there, they replace the meanings of the base header ids. */
export const LinkHello = {
  /** The same for every underlay of one link. */
  ConnectionId: 0,
  /** Split links only: one byte, see `SplitLinkChannel`. */
  ChannelType: 1,
  RouterId: 2,
  /** Version of the router that is dialled, as the dialer knows it. */
  RouterVersion: 3,
  Binding: 4,
  Iteration: 5,
  UnderlayType: 7,
  IsGrouped: 9,
  GroupSecret: 10,
  IsFirstGroupConnection: 11,
} as const;

/** Values of `LinkHello.ChannelType`. */
export const SplitLinkChannel = { Payload: 1, Ack: 2 } as const;

/** Names of the underlays of a grouped link. */
export const LinkUnderlay = { Default: "link.default", Ack: "link.ack" } as const;

/** Application protocol name of links. */
export const LINK_ALPN = "ziti-link";
