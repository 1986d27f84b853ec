import {
  ControlHeader,
  ControllerCapability,
  ControlType,
  ctrlPb,
  encodeControl,
  FaultSubject,
  Headers,
  type Outgoing,
} from "@sallyport/wire";
import type { Fault } from "../forwarder/fault-reports.ts";
import type { ControllerConnection } from "./controllers/controller-connection.ts";
import type { Controllers } from "./controllers/controllers.ts";

/**
 * Tells a circuit's controller what becomes of the circuit. While that one is not connected, a controller that answers
 * for the circuits of others is told in its place, with the owner's id (docs/protocol/control.md, "Routes").
 */
export class CircuitReports {
  readonly #controllers: Controllers;

  constructor(controllers: Controllers) {
    this.#controllers = controllers;
  }

  fault(fault: Fault): void {
    const { controllerId: owner } = fault;
    if (owner === undefined) {
      this.#controllers.broadcast(faultMessage(fault));
      return;
    }
    if (this.#controllers.sendTo(owner, faultMessage(fault))) return;
    // A successor may not know the circuit yet, and would end one that it does not know if this named a known owner.
    const subject = fault.subject === FaultSubject.ForwardFault ? FaultSubject.UnknownOwnerForwardFault : fault.subject;
    this.#toSuccessor(faultMessage({ ...fault, subject }, owner));
  }

  /** Asks whether idle circuits still exist; those that do not are unrouted. Not asked of a controller that cannot know it. */
  confirm(owner: string, idleMs: ReadonlyMap<string, number>): void {
    const body = encodeControl(ctrlPb.CircuitConfirmationSchema, {
      circuitIds: [...idleMs.keys()],
      idleTimes: Object.fromEntries([...idleMs].map(([id, ms]) => [id, BigInt(Math.round(ms * 1e6))])),
    });
    const out = { contentType: ControlType.CircuitConfirmation, body };
    if (!this.#controllers.sendTo(owner, out)) this.#toSuccessor({ ...out, headers: ownedBy(owner) });
  }

  #toSuccessor(out: Outgoing): void {
    const successor = this.#controllers.best(isSuccessor);
    if (successor !== undefined) this.#controllers.sendTo(successor.id, out);
  }
}

function isSuccessor(controller: ControllerConnection): boolean {
  return controller.has(ControllerCapability.CircuitSuccession);
}

function ownedBy(owner: string): Headers {
  return new Headers().setString(ControlHeader.CircuitOwner, owner);
}

function faultMessage({ subject, ids, iteration }: Fault, owner?: string) {
  const body = encodeControl(ctrlPb.FaultSchema, { subject, id: ids.join(" "), iteration: iteration ?? 0 });
  return { contentType: ControlType.Fault, body, headers: owner === undefined ? new Headers() : ownedBy(owner) };
}
