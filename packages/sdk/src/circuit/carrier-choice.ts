import { EdgeHeader, type Headers, type Side } from "@sallyport/wire";
import type { EdgeChannel } from "../edge-channel.ts";
import type { Carrier, CarrierReceiver } from "./carrier.ts";
import { DataCarrier } from "./data-carrier.ts";
import { FlowCarrier } from "./flow-carrier.ts";

/**
 * Makes what carries a connection and gives it the connection id: with the SDK's flow control when the router's message
 * leaves it to the SDK, else by Data messages (docs/protocol/edge.md "Flow control by the SDK").
 *
 * @param o.headers of StateConnected, or of Dial
 */
export function carrierOn(
  edge: EdgeChannel,
  id: number,
  o: { readonly circuitId: string; readonly side: Side; readonly headers: Headers },
  receiver: CarrierReceiver,
): Carrier {
  const { circuitId, side, headers } = o;
  const address = headers.getString(EdgeHeader.XgressAddress);
  const isOurs = headers.getBool(EdgeHeader.UseXgressToSdk) === true && address !== undefined && circuitId !== "";
  const carrier = isOurs
    ? new FlowCarrier(edge, id, { circuitId, side, address }, receiver)
    : new DataCarrier(edge, id, receiver);
  edge.assign(id, carrier);
  return carrier;
}
