import { ControlType, EdgeCtrlType, type Logger, type Message } from "@sallyport/wire";
import { createdOf, olderCircuit, plainCircuit } from "./circuits.ts";
import type { CircuitCreated } from "./control-plane.ts";
import type { ControllerConnection } from "./controllers/controller-connection.ts";
import type { Controllers } from "./controllers/controllers.ts";
import { modelCircuit, sessionCircuit } from "./tunnel/tunnel-circuits.ts";

type Named = Pick<CircuitCreated, "circuitId" | "address">;

/** What names the circuit in each answer. */
const READERS: readonly (readonly [type: number, read: (message: Message, from: ControllerConnection) => Named])[] = [
  [ControlType.CircuitSuccess, plainCircuit],
  [EdgeCtrlType.CreateCircuitResponse, olderCircuit],
  [EdgeCtrlType.CreateCircuitV2Response, createdOf],
  [EdgeCtrlType.CreateCircuitV3Response, createdOf],
  [EdgeCtrlType.CreateTunnelCircuitV2Response, modelCircuit],
  [EdgeCtrlType.CreateCircuitForServiceResponse, sessionCircuit],
];

/**
 * Takes answers to requests for circuits that no request waits for any more: of a controller that hung and goes on, or that was too slow.
 * Such a circuit is given up, because nothing would use or end it.
 */
export function giveUpLateCircuits(controllers: Controllers, giveUp: (circuit: Named) => void, log: Logger): void {
  for (const [type, read] of READERS) {
    controllers.handle(type, (message, controller) => {
      const { circuitId, address } = read(message, controller);
      if (circuitId === "" || address === "") return;
      log.info({ circuitId, controllerId: controller.id }, "a circuit came too late; it is given up");
      giveUp({ circuitId, address });
    });
  }
}
