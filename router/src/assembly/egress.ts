import { xgressOptions } from "../config/forwarding.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { TransportEgress } from "../xgress/transport-egress.ts";
import type { Assembly } from "./context.ts";

/** The bindings of `dialers`: how terminators of this router are reached. Of several with one binding the last counts. */
export function egress({ config }: Assembly, forwarder: Forwarder): void {
  const transport = config.dialers.findLast((dialer) => dialer.binding === "transport");
  if (transport !== undefined) {
    const { connectTimeout } = transport.options;
    forwarder.registerEgress(
      "transport",
      new TransportEgress(forwarder, { xgress: xgressOptions(transport.options), connectTimeoutMs: connectTimeout }),
    );
  }
}
