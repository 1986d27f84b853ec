import type { EmitEvent } from "../fabric-events.ts";

/** Where failed dials are remembered. */
interface FailedDialsPort {
  add(
    identityId: string,
    failure: {
      readonly serviceId: string;
      readonly type: "Dial";
      readonly code: string;
      readonly message: string;
      readonly routerId: string;
    },
  ): void;
  succeeded(identityId: string, serviceId: string): void;
}

/** Remembers the dials that came to nothing after policy allowed them. */
export function rememberedDials(failedDials: FailedDialsPort): EmitEvent {
  return (event) => {
    switch (event.kind) {
      case "circuit-created":
        failedDials.succeeded(event.circuit.clientId, event.circuit.serviceId);
        return;
      case "circuit-failed":
      case "encryption-missing": {
        const { clientId, serviceId, ingressRouterId: routerId, message } = event;
        const code = event.kind === "circuit-failed" ? event.cause : "ENCRYPTION_DATA_MISSING";
        failedDials.add(clientId, { serviceId, type: "Dial", code, message, routerId });
        return;
      }
      default:
    }
  };
}
