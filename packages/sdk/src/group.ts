import { errorText } from "@sallyport/async";
import { BaseHeader, type Channel, dialUnderlay, type Headers, type Logger } from "@sallyport/wire";

const UNDERLAY_TYPE = "edge.default";
const CHECK_MS = 2_000;
const MAX_WAIT_MS = 60_000;

/** Asks a router for a channel of several connections; one that knows no such thing answers with a plain channel. */
export function askForGroup(headers: Headers): Headers {
  return headers
    .setBool(BaseHeader.IsGrouped, true)
    .setString(BaseHeader.Type, UNDERLAY_TYPE)
    .setBool(BaseHeader.IsFirstGroupConnection, true);
}

/**
 * Brings a channel to `wanted` connections, and back to it when one is lost, as long as the channel lives. Failures make
 * it more patient: the channel works with those it has.
 */
export function keepConnections(channel: Channel, wanted: number, log: Logger): void {
  if (!channel.isGrouped || wanted < 2) return;
  let failures = 0;
  let waitUntil = 0;
  let isDialling = false;
  const look = async (): Promise<void> => {
    if (isDialling || performance.now() < waitUntil) return;
    isDialling = true;
    try {
      while (!channel.isClosed && channel.underlays.length < wanted) {
        await dialUnderlay(channel, { type: UNDERLAY_TYPE });
        failures = 0;
      }
    } catch (error) {
      failures++;
      waitUntil = performance.now() + Math.min(2_000 * failures, MAX_WAIT_MS);
      if (!channel.isClosed)
        log.info({ channel: channel.label, reason: errorText(error) }, "no further connection to a router");
    } finally {
      isDialling = false;
    }
  };
  const timer = setInterval(() => void look(), CHECK_MS);
  timer.unref();
  channel.onClose(() => clearInterval(timer));
  void look();
}
