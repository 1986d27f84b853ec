import { Xgress } from "@sallyport/wire";
import { DataCircuit } from "./data-circuit.ts";
import { SdkCircuit, type SdkCircuitParts } from "./flow-control/sdk-circuit.ts";
import type { SdkChannel } from "./sdk-channel.ts";

interface EdgeCircuitParts extends SdkCircuitParts {
  readonly sdk: SdkChannel;
}

/** The end of a circuit at an SDK, registered in the fabric; the SDK's channel does not know it yet. */
export function edgeCircuit(parts: EdgeCircuitParts, flowControlBySdk: boolean): DataCircuit | SdkCircuit {
  if (flowControlBySdk) return new SdkCircuit(parts);
  const { forwarder, sdk, connId, grant, circuitId, address, side, carriesDatagrams } = parts;
  const port = new DataCircuit(sdk, connId, grant, carriesDatagrams);
  port.xgress = new Xgress({ fabric: forwarder, circuitId, address, side, port, options: sdk.options.xgress });
  return port;
}
