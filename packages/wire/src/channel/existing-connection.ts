import { randomBytes } from "node:crypto";
import type { Socket } from "node:net";
import { HandshakeError } from "../errors.ts";
import { readFirstFrame } from "../frame/first-frame.ts";
import { HELLO_LIMITS } from "../frame/frame.ts";
import type { Logger } from "../log.ts";
import { SocketReader } from "../socket/socket-reader.ts";
import type { Channel } from "./channel.ts";
import { limitsOf } from "./channel-parts.ts";
import { encodeResult, helloOf, resultHeadersFor } from "./hello.ts";
import { MessageChannel } from "./message-channel.ts";

export interface AcceptOnOptions {
  /** For logs and the label. */
  readonly name: string;
  /** Header 8 of the result. */
  readonly id: string;
  /** Bytes of the connection that were read already. */
  readonly early: Buffer;
  readonly helloTimeoutMs: number;
  /** Gets the channel; set handlers before returning, reading starts then. */
  onChannel(channel: Channel): void;
  readonly log: Logger;
}

const CONNECTION_ID_BYTES = 9;
/** Requests of local tools are small. */
const MAX_BODY = 1024 * 1024;

/**
 * Accepts a channel on a connection that exists and is trusted by other means than a certificate: a local tool on a
 * Unix socket (docs/protocol/channel.md, "Accepting"). Nobody else may listen to the socket's data any more.
 *
 * @throws ProtocolError, HandshakeError or ChannelClosedError when there is no hello; the socket is left to the caller
 */
export async function acceptOn(socket: Socket, o: AcceptOnOptions): Promise<void> {
  const reader = new SocketReader();
  reader.useExisting(socket, "data");
  reader.hold(Buffer.from(o.early));
  socket.setTimeout(0);
  const late = new AbortController();
  const timer = setTimeout(() => {
    late.abort(new HandshakeError("HELLO_TIMEOUT", `no complete hello within ${o.helloTimeoutMs} ms`));
  }, o.helloTimeoutMs);
  try {
    const message = await readFirstFrame(reader, HELLO_LIMITS, late.signal);
    const hello = helloOf(message);
    const connectionId = randomBytes(CONNECTION_ID_BYTES).toString("hex");
    const result = resultHeadersFor(hello, message.sequence, { connectionId, id: o.id });
    const channel = new MessageChannel({
      label: `${o.name}[${hello.idToken.slice(0, 64)}]`,
      peer: { address: "local", certificates: [] },
      remoteId: hello.idToken,
      hello,
      result,
      connectionId,
      isGrouped: false,
      ...limitsOf({ maxBody: MAX_BODY }),
      log: o.log,
    });
    const underlay = channel.addUnderlay(socket, reader, "");
    socket.write(encodeResult(result));
    o.onChannel(channel);
    underlay.start();
  } finally {
    clearTimeout(timer);
  }
}
