import {
  type AcceptOptions,
  acceptChannels,
  type Channel,
  HandshakeError,
  type Hello,
  type Identity,
  LINK_ALPN,
  LinkHello,
  type Logger,
  type Peer,
  SplitLinkChannel,
  type TlsPort,
  verifyLeaf,
} from "@sallyport/wire";
import { Link, linkKey } from "./link.ts";

export interface LinkAcceptOptions {
  readonly port: TlsPort;
  readonly routerId: string;
  readonly identity: () => Identity;
  /** Of the listener: the protocol and the name of its interface, both part of the link key. */
  readonly protocol: string;
  readonly localBinding: string;
  readonly advertise: string;
  readonly helloTimeoutMs: number;
  /** What may wait for a router that does not read, and how many connections may be in their hello. */
  readonly limits?: Pick<AcceptOptions, "maxPending" | "writeTimeoutMs" | "maxHellos">;
  /** Asks a controller whether the certificate is that of the router; rejects when it is not, or none can be asked. */
  readonly verify: (routerId: string, fingerprint: string) => Promise<void>;
  readonly onLink: (link: Link) => void;
  /** How long one half of a split link waits for the other; 30 s. */
  readonly halfTimeoutMs?: number;
  readonly log: Logger;
}

interface Half {
  readonly channel: Channel;
  readonly type: number;
  readonly timer: NodeJS.Timeout;
}

const VERIFY_MS = 10_000;
/** Channels that one router may have here: links, halves of links, and what was turned away and still closes. */
const MAX_OF_ONE = 100;
/** Of a link's id and of the names in its hello: they go into keys, metrics and reports. */
const MAX_NAME = 256;
const NAMES = [LinkHello.RouterId, LinkHello.Binding, LinkHello.ConnectionId] as const;
const HALF_MS = 30_000;

/**
 * Accepts links (docs/protocol/links.md, "Who may link"). Identity and trust come from the dialer's leaf certificate
 * alone, whose key the TLS handshake proved: it must chain to this router's anchors, and a controller must know its
 * fingerprint as that of the router the hello names. A dialer that fails is closed before any result.
 */
export function acceptLinks(options: LinkAcceptOptions): () => void {
  const halves = new Map<string, Half>();
  const channelsOf = new Map<string, number>();
  const stop = acceptChannels(options.port, {
    name: "link",
    protocols: [LINK_ALPN],
    acceptsNoAlpn: false,
    id: options.routerId,
    grouped: true,
    helloTimeoutMs: options.helloTimeoutMs + VERIFY_MS,
    ...options.limits,
    log: options.log,
    authorize: (hello, peer) => authorize(hello, peer, options),
    onChannel: (channel) => {
      countChannel(channel, channelsOf);
      const type = channel.isGrouped ? undefined : channel.hello.headers.getByte(LinkHello.ChannelType);
      if (type === undefined) options.onLink(linkOf(channel, undefined, options));
      else joinHalves(channel, type, halves, options);
    },
  });
  return () => {
    stop();
    for (const half of halves.values()) {
      clearTimeout(half.timer);
      half.channel.close();
    }
  };
}

/** @throws HandshakeError `TOO_MANY_LINKS`: the channel is closed */
function countChannel(channel: Channel, channelsOf: Map<string, number>): void {
  const routerId = channel.hello.headers.getString(LinkHello.RouterId) ?? "";
  const open = channelsOf.get(routerId) ?? 0;
  if (open >= MAX_OF_ONE) {
    const text = `router ${routerId} has ${open} connections for links here, the most one may have`;
    throw new HandshakeError("TOO_MANY_LINKS", text);
  }
  channelsOf.set(routerId, open + 1);
  channel.onClose(() => {
    const left = (channelsOf.get(routerId) ?? 1) - 1;
    if (left > 0) channelsOf.set(routerId, left);
    else channelsOf.delete(routerId);
  });
}

async function authorize(hello: Hello, peer: Peer, options: LinkAcceptOptions): Promise<void> {
  const routerId = hello.headers.getString(LinkHello.RouterId);
  const [leaf, ...intermediates] = peer.certificates;
  if (!routerId || hello.idToken === "") {
    throw new HandshakeError("LINK_HELLO_INCOMPLETE", "a link hello must name its link and its router");
  }
  const lengths = NAMES.map((key) => hello.headers.get(key)?.length ?? 0);
  if (Math.max(hello.idToken.length, ...lengths) > MAX_NAME) {
    throw new HandshakeError("LINK_HELLO_TOO_LONG", `a link hello has a name of more than ${MAX_NAME} characters`);
  }
  if (routerId === options.routerId) throw new HandshakeError("LINK_TO_SELF", "a router does not link to itself");
  if (leaf === undefined || peer.fingerprint === undefined) {
    throw new HandshakeError("NO_CLIENT_CERTIFICATE", "a link needs a client certificate");
  }
  verifyLeaf({ leaf, intermediates, anchors: options.identity().anchors });
  await options.verify(routerId, peer.fingerprint);
}

function joinHalves(channel: Channel, type: number, halves: Map<string, Half>, options: LinkAcceptOptions): void {
  const name = `${channel.hello.headers.getString(LinkHello.RouterId)}/${channel.hello.headers.getString(LinkHello.ConnectionId)}`;
  const other = halves.get(name);
  if (other === undefined) {
    const timer = setTimeout(() => {
      halves.delete(name);
      channel.close(new HandshakeError("LINK_HALF", "the other half of a split link did not come"));
    }, options.halfTimeoutMs ?? HALF_MS);
    timer.unref();
    halves.set(name, { channel, type, timer });
    channel.onClose(() => {
      if (halves.get(name)?.channel === channel) halves.delete(name);
      clearTimeout(timer);
    });
    return;
  }
  if (other.type === type || other.channel.peer.fingerprint !== channel.peer.fingerprint) {
    channel.close(new HandshakeError("LINK_HALF", "this half of a split link is there already"));
    return;
  }
  clearTimeout(other.timer);
  halves.delete(name);
  const [payload, ack] = type === SplitLinkChannel.Payload ? [channel, other.channel] : [other.channel, channel];
  options.onLink(linkOf(payload, ack, options));
}

function linkOf(channel: Channel, ackChannel: Channel | undefined, options: LinkAcceptOptions): Link {
  const { headers, idToken } = channel.hello;
  const peerId = headers.getString(LinkHello.RouterId) ?? "";
  return new Link({
    id: idToken,
    key: linkKey({
      dialerBinding: headers.getString(LinkHello.Binding) ?? "",
      protocol: options.protocol,
      peerId,
      listenerBinding: options.localBinding,
    }),
    peerId,
    // A dialer does not tell its own version, only that of the router it dialled.
    peerVersion: "",
    iteration: headers.getU32(LinkHello.Iteration) ?? 0,
    form: ackChannel !== undefined ? "split" : channel.isGrouped ? "grouped" : "single",
    protocol: options.protocol,
    dialAddress: options.advertise,
    isDialed: false,
    channel,
    ackChannel,
  });
}
