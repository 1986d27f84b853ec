import { type LocalPort, Xgress, type XgressOptions } from "@sallyport/wire";
import type { Forwarder } from "../forwarder/forwarder.ts";

/** A circuit that was made for a listener of the router itself. */
export interface PlainCircuit {
  readonly circuitId: string;
  /** Xgress address of the initiating end. */
  readonly address: string;
  /** Who has made it, and is told when nobody wants it. */
  readonly controllerId: string;
}

/** What listeners that know no identities need of the router. */
export interface PlainListening {
  readonly forwarder: Forwarder;
  readonly xgress: XgressOptions;
  /**
   * Has a circuit made to a service: its name or id, perhaps with `instance@` in front.
   * @throws an error whose text says why not
   */
  readonly createCircuit: (service: string) => Promise<PlainCircuit>;
  /** Gives a circuit back that nobody wants any more. */
  readonly release: (circuit: PlainCircuit) => void;
}

/** The initiating end of a circuit, not yet started. */
export function initiate(listening: PlainListening, circuit: PlainCircuit, port: LocalPort): Xgress {
  const { forwarder: fabric, xgress: options } = listening;
  try {
    const { circuitId, address } = circuit;
    return new Xgress({ fabric, circuitId, address, side: "initiator", port, options });
  } catch (error) {
    listening.release(circuit);
    throw error;
  }
}
