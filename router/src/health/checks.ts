import { BaseType } from "@sallyport/wire";
import type { ControllerConnection } from "../control/controllers/controller-connection.ts";
import type { Link } from "../link/link.ts";
import { CheckFailed, type Look } from "./health-check.ts";

/** What the check of the controllers needs of them. */
export interface CheckedControllers {
  all(): readonly ControllerConnection[];
  /** Whether it answered its last heartbeats in time. */
  isResponsive(controller: ControllerConnection): boolean;
}

/**
 * Passes when a controller is connected, answers its heartbeats in time, and answers a ping now. Pings go to all of them
 * at once, and the first answer will do. Channels in groups have no pings: there the heartbeats are all that counts.
 */
export function controllerPing(controllers: CheckedControllers): Look {
  return async (signal) => {
    const connected = controllers.all();
    if (connected.length === 0) throw new CheckFailed("no control channels established yet");
    const responsive = connected.filter((controller) => controllers.isResponsive(controller));
    if (responsive.length === 0) throw new CheckFailed("control channels are slow");
    try {
      await Promise.any(responsive.map((controller) => ping(controller, signal)));
    } catch (error) {
      const [cause] = error instanceof AggregateError ? error.errors : [error];
      throw new CheckFailed("control channels are slow", { cause });
    }
    return undefined;
  };
}

async function ping({ channel }: ControllerConnection, signal: AbortSignal): Promise<void> {
  if (channel.isGrouped) return;
  await channel.request({ contentType: BaseType.Ping }, { signal });
}

/** Passes with as many links as there should be at least; its details are the links. */
export function linkHealth(links: () => readonly Link[], minLinks: number): Look {
  return () => {
    const all = links();
    const details = all.length === 0 ? null : all.map(linkDetail);
    if (all.length >= minLinks) return details;
    throw new CheckFailed(`link count ${all.length} less than configured minimum of ${minLinks}`, { details });
  };
}

/** The keys in the order in which they are shown; of several connections of one type the last is shown. */
function linkDetail(link: Link) {
  const addresses = Object.fromEntries(
    link.connections().map(({ type, localAddr, remoteAddr }) => [type, { localAddr, remoteAddr }]),
  );
  return { linkId: link.id, destRouterId: link.peerId, latency: link.latency.mean, addresses };
}
