import { decodeControl, type Message, ProtocolError } from "@sallyport/wire";
import type { RouterConnection } from "./router-connection.ts";

type Schema = Parameters<typeof decodeControl>[0];
type Decoded<S extends Schema> = ReturnType<typeof decodeControl<S>>;

/** Fields of a message: decoding so many takes some 100 ms. */
const MAX_FIELDS = 200_000;
/** Of a message about all identities or links of a router, or about everything that it measures. */
export const MAX_FIELDS_OF_REPORTS = 1_000_000;

/**
 * Reads a router's message. One that cannot be decoded is logged and gets no answer (its sender times out), as everything that breaks the protocol without
 * endangering the channel.
 */
export function read<T>(router: RouterConnection, message: Message, decode: () => T): T | undefined {
  try {
    return decode();
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
    const { id: routerId, channel } = router;
    const fields = { routerId, peer: channel.peer.address, contentType: message.contentType, reason: error.message };
    router.log.warn(fields, "a router's message cannot be decoded and is dropped");
    return undefined;
  }
}

/** Handles messages of one type whose body is `schema`. */
export function onMessage<S extends Schema>(
  router: RouterConnection,
  contentType: number,
  schema: S,
  handle: (body: Decoded<S>, message: Message) => void,
  maxFields: number = MAX_FIELDS,
): void {
  onRawMessage(router, contentType, (message) => {
    const body = read(router, message, () => decodeControl(schema, message.body, maxFields));
    if (body !== undefined) handle(body, message);
  });
}

/** Handles messages of one type that consist of headers or plain text. No other way leads to a router's messages: their time is counted here. */
export function onRawMessage(router: RouterConnection, contentType: number, handle: (message: Message) => void): void {
  router.channel.handle(contentType, (message) => router.atOnce(() => handle(message)));
}
