import { decodeControl, type Message, ProtocolError } from "@sallyport/wire";
import type { RouterConnection } from "./router-connection.ts";

type Schema = Parameters<typeof decodeControl>[0];
type Body<S extends Schema> = ReturnType<typeof decodeControl<S>>;

/**
 * Reads a router's message. One that cannot be decoded is logged and gets no answer (its sender times out), as everything that breaks the protocol without
 * endangering the channel.
 */
export function readBody<S extends Schema>(router: RouterConnection, schema: S, message: Message): Body<S> | undefined {
  return read(router, message, () => decodeControl(schema, message.body));
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
): void {
  router.channel.handle(contentType, (message) => {
    const body = readBody(router, schema, message);
    if (body !== undefined) handle(body, message);
  });
}
