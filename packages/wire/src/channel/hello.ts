import { BaseHeader, BaseType, ReflectedHeaders } from "../catalogue/base.ts";
import { ChannelClosedError, ProtocolError } from "../errors.ts";
import { type FrameLimits, FrameParser } from "../frame/frame.ts";
import { Headers } from "../frame/headers.ts";
import { encodeMessage, type Message, messageOf } from "../frame/message.ts";
import type { SocketReader } from "../socket/socket-reader.ts";

/** The first message of a connection: who the dialer says it is. Only the acceptor knows what the headers mean. */
export interface Hello {
  /** Body of the hello: a claim of the peer, proven by nothing but what the acceptor checks. */
  readonly idToken: string;
  readonly headers: Headers;
}

/** Sequence of every hello we send, and of every result that answers one. */
const HELLO_SEQUENCE = -1;

/** The frame of a hello (docs/protocol/channel.md, "Hello"). */
export function encodeHello(hello: Hello): Buffer {
  return encodeMessage(
    { contentType: BaseType.Hello, headers: hello.headers, body: Buffer.from(hello.idToken, "utf8") },
    HELLO_SEQUENCE,
  );
}

/** @throws ProtocolError `NOT_A_HELLO` when the first message of a connection is another one */
export function helloOf(message: Message): Hello {
  if (message.contentType !== BaseType.Hello) {
    throw new ProtocolError(
      "NOT_A_HELLO",
      `expected a hello (content type ${BaseType.Hello}) first, got content type ${message.contentType}`,
    );
  }
  return { idToken: message.body.toString("utf8"), headers: message.headers };
}

/** What a listener adds to every result; `group` only when it grants a grouped channel. */
export interface ResultParts {
  readonly connectionId: string;
  /** Header 8: the id of the controller or router that listens. */
  readonly id: string;
  readonly group?: { readonly type: string; readonly secret: Buffer } | undefined;
  /** Further headers of the kind of channel; they may not replace those of the exchange itself. */
  readonly extra?: Headers | undefined;
}

/** The headers of the result that accepts `hello`, whose frame carried `sequence`. */
export function resultHeadersFor(hello: Hello, sequence: number, parts: ResultParts): Headers {
  const headers = parts.extra?.clone() ?? new Headers();
  headers
    .setString(BaseHeader.ConnectionId, parts.connectionId)
    .setI32(BaseHeader.ReplyFor, sequence)
    .setBool(BaseHeader.ResultSuccess, true)
    .setString(BaseHeader.Id, parts.id);
  if (parts.group) {
    headers
      .setString(BaseHeader.Type, parts.group.type)
      .setBool(BaseHeader.IsGrouped, true)
      .set(BaseHeader.GroupSecret, parts.group.secret);
  }
  for (const [key, value] of hello.headers.entries()) {
    if (key >= ReflectedHeaders.first && key <= ReflectedHeaders.last) headers.set(key, value);
  }
  return headers;
}

export function encodeResult(headers: Headers): Buffer {
  return encodeMessage({ contentType: BaseType.Result, headers }, HELLO_SEQUENCE);
}

/**
 * Reads the answer to a hello that was sent with `HELLO_SEQUENCE`.
 * @throws ProtocolError `HELLO_REFUSED` with the listener's text, or `NOT_A_RESULT` when it is no answer to the hello
 */
export function resultOf(message: Message): Headers {
  const { headers } = message;
  const replyFor = headers.getI32(BaseHeader.ReplyFor) ?? HELLO_SEQUENCE;
  if (message.contentType !== BaseType.Result || replyFor !== HELLO_SEQUENCE) {
    throw new ProtocolError(
      "NOT_A_RESULT",
      `expected the result (content type ${BaseType.Result}) of the hello, got content type ${message.contentType} for sequence ${replyFor}`,
    );
  }
  if (headers.getBool(BaseHeader.ResultSuccess) !== true) {
    const text = message.body.toString("utf8");
    throw new ProtocolError(
      "HELLO_REFUSED",
      `the listener refused the hello: ${text === "" ? "no reason given" : text}`,
    );
  }
  return headers;
}

/**
 * Reads the one frame that a hello exchange consists of in each direction. What follows it is held by the reader.
 * @throws ProtocolError, the signal's reason, or ChannelClosedError `CLOSED_BY_PEER`; the socket is left as it is
 */
export function readFirstFrame(reader: SocketReader, limits: FrameLimits, signal: AbortSignal): Promise<Message> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    let message: Message | undefined;
    const parser = new FrameParser(limits, (frame) => {
      message = messageOf(frame);
      parser.stop();
    });
    const finish = (): void => {
      signal.removeEventListener("abort", onAbort);
      reader.onClosed(() => {});
    };
    const fail = (error: unknown): void => {
      finish();
      reader.hold();
      reject(error);
    };
    const onAbort = (): void => fail(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    reader.deliver((buffer, length) => {
      try {
        const at = parser.push(buffer, 0, length);
        if (message !== undefined) {
          finish();
          reader.hold(Buffer.from(buffer.subarray(at, length)));
          resolve(message);
        }
      } catch (error) {
        fail(error);
      }
    });
    reader.onClosed((error) =>
      fail(error ?? new ChannelClosedError("the peer closed the connection during the hello", "CLOSED_BY_PEER")),
    );
  });
}
