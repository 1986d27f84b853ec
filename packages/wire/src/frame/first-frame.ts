import { ChannelClosedError } from "../errors.ts";
import type { SocketReader } from "../socket/socket-reader.ts";
import { type FrameLimits, FrameParser } from "./frame.ts";
import { type Message, messageOf } from "./message.ts";

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
