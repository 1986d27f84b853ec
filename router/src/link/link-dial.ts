import { randomUUID } from "node:crypto";
import {
  type Channel,
  type ChannelLimits,
  commonName,
  dialChannel,
  HandshakeError,
  Headers,
  type HttpProxy,
  type Identity,
  LINK_ALPN,
  LinkHello,
  LinkUnderlay,
  type Logger,
  SplitLinkChannel,
} from "@sallyport/wire";
import type { LinkForm } from "./link.ts";

/** One attempt to make a link. */
export interface LinkDialRequest {
  readonly linkId: string;
  readonly iteration: number;
  readonly form: LinkForm;
  readonly peerId: string;
  readonly peerVersion: string;
  /** `tls:host:port` */
  readonly address: string;
  readonly dialerBinding: string;
  readonly localAddress?: string | undefined;
  readonly timeoutMs: number;
  /** The router is dialled through this proxy. */
  readonly proxy?: HttpProxy | undefined;
  /** What may wait for the router when it does not read, and for how long. */
  readonly limits?: ChannelLimits;
}

interface LinkDialed {
  readonly channel: Channel;
  readonly ackChannel?: Channel;
  /** What it became: a peer that does not know groups answers as a single link. */
  readonly form: LinkForm;
}

/**
 * Dials a link: TLS, hello with the link's id, and for a split link both halves (docs/protocol/links.md, "Hello"). Fails
 * with HandshakeError `WRONG_ROUTER` when another router answers than the one meant.
 */
export async function dialLink(
  request: LinkDialRequest,
  own: { routerId: string; identity: Identity; log: Logger; signal: AbortSignal },
): Promise<LinkDialed> {
  const connectionId = randomUUID();
  const dial = (part: (headers: Headers) => Headers) =>
    dialPart(request, own, part(commonHeaders(request, own.routerId, connectionId)));
  if (request.form === "grouped") {
    const channel = await dial((headers) =>
      headers
        .setString(LinkHello.UnderlayType, LinkUnderlay.Default)
        .setBool(LinkHello.IsGrouped, true)
        .setBool(LinkHello.IsFirstGroupConnection, true),
    );
    return { channel, form: channel.isGrouped ? "grouped" : "single" };
  }
  if (request.form === "single") return { channel: await dial((headers) => headers), form: "single" };
  const channel = await dial((headers) => headers.setByte(LinkHello.ChannelType, SplitLinkChannel.Payload));
  try {
    const ackChannel = await dial((headers) => headers.setByte(LinkHello.ChannelType, SplitLinkChannel.Ack));
    return { channel, ackChannel, form: "split" };
  } catch (error) {
    channel.close(error instanceof Error ? error : undefined);
    throw error;
  }
}

function commonHeaders(request: LinkDialRequest, routerId: string, connectionId: string): Headers {
  return new Headers()
    .setString(LinkHello.ConnectionId, connectionId)
    .setString(LinkHello.RouterId, routerId)
    .setString(LinkHello.RouterVersion, request.peerVersion)
    .setString(LinkHello.Binding, request.dialerBinding)
    .setU32(LinkHello.Iteration, request.iteration);
}

async function dialPart(
  request: LinkDialRequest,
  own: { identity: Identity; log: Logger; signal: AbortSignal },
  headers: Headers,
): Promise<Channel> {
  const channel = await dialChannel({
    address: request.address,
    identity: own.identity,
    alpn: LINK_ALPN,
    hello: { idToken: request.linkId, headers },
    timeoutMs: request.timeoutMs || 15_000,
    signal: own.signal,
    ...(request.localAddress === undefined ? {} : { localAddress: request.localAddress }),
    ...(request.proxy === undefined ? {} : { proxy: request.proxy }),
    ...request.limits,
    log: own.log,
  });
  // What the listener calls itself is only a claim; its certificate proves who it is.
  const [leaf] = channel.peer.certificates;
  const proven = leaf === undefined ? undefined : commonName(leaf);
  if (channel.remoteId !== request.peerId || proven !== request.peerId) {
    const found = `${channel.remoteId} answered with the certificate of ${proven ?? "nobody"}`;
    const text = `expected router ${request.peerId} at ${request.address}, ${found}`;
    const error = new HandshakeError("WRONG_ROUTER", text);
    channel.close(error);
    throw error;
  }
  return channel;
}
