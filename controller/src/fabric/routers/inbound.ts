import { decodeControl, type Message, ProtocolError } from "@sallyport/wire";
import type { RouterConnection } from "./router-connection.ts";

type Schema = Parameters<typeof decodeControl>[0];
type Body<S extends Schema> = ReturnType<typeof decodeControl<S>>;

/** Fields of a message: decoding so many takes some 100 ms. */
const MAX_FIELDS = 200_000;
/** Of a message about all identities or links of a router, or about everything that it measures. */
export const MAX_FIELDS_OF_REPORTS = 1_000_000;

/**
 * Reads a router's message. One that cannot be decoded is logged and gets no answer (its sender times out), as everything that breaks the protocol without
 * endangering the channel.
 */
export function readBody<S extends Schema>(
  router: RouterConnection,
  schema: S,
  message: Message,
  mostFields: number = MAX_FIELDS,
): Body<S> | undefined {
  return read(router, message, () => decodeControl(schema, message.body, mostFields));
}

/** As {@link readBody} for messages that consist of headers. */
export function read<T>(router: RouterConnection, message: Message, decode: () => T): T | undefined {
  try {
    return decode();
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    router.log.warn(
      {
        routerId: router.id,
        peer: router.channel.peer.address,
        contentType: message.contentType,
        reason: error.message,
      },
      "a router's message cannot be decoded and is dropped",
    );
    return undefined;
  }
}

/** Handles messages of one type whose body is `schema`. */
export function onMessage<S extends Schema>(
  router: RouterConnection,
  contentType: number,
  schema: S,
  handle: (body: Body<S>, message: Message) => void,
  mostFields: number = MAX_FIELDS,
): void {
  onRawMessage(router, contentType, (message) => {
    const body = readBody(router, schema, message, mostFields);
    if (body !== undefined) handle(body, message);
  });
}

/** Handles messages of one type that consist of headers or plain text. No other way leads to a router's messages: their time is counted here. */
export function onRawMessage(router: RouterConnection, contentType: number, handle: (message: Message) => void): void {
  router.channel.handle(contentType, (message) => router.atOnce(() => handle(message)));
}
