import { forwarderOptions } from "../config/forwarding.ts";
import { Forwarder } from "../forwarder/forwarder.ts";
import type { Assembly } from "./context.ts";

/** The table of circuits. */
export function forwarding({ config, routerId, log, stops }: Assembly): Forwarder {
  const forwarder = new Forwarder({ routerId, log, options: forwarderOptions(config.forwarder) });
  stops.push(() => forwarder.close());
  return forwarder;
}
