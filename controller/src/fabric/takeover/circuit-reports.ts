import { ControlHeader, ControlType, ctrlPb, type Logger } from "@sallyport/wire";
import { isEnd } from "../circuits/circuit.ts";
import type { CircuitBuilder } from "../circuits/circuit-builder.ts";
import type { CircuitRegistry } from "../circuits/circuit-registry.ts";
import type { Rerouter } from "../circuits/rerouter.ts";
import type { RouteExchange } from "../circuits/route-exchange.ts";
import type { LinkMessages } from "../links/link-messages.ts";
import type { CircuitService, FabricModel } from "../ports.ts";
import type { CircuitReport, FabricReplicas } from "../replicas.ts";
import { serveNotice } from "../requests.ts";
import { onMessage } from "../routers/inbound.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import type { CircuitAdoption } from "./circuit-adoption.ts";
import type { CircuitOwnership } from "./circuit-ownership.ts";
import { CircuitsElsewhere, type UnknownReport } from "./circuits-elsewhere.ts";

const { FaultSubject } = ctrlPb;
const NS_PER_MS = 1_000_000n;
/** Circuits taken from one report; the router repeats the others. */
const MAX_FAULTS = 10_000;

interface CircuitReportsParts {
  readonly model: Pick<FabricModel, "findService">;
  readonly builder: Pick<CircuitBuilder, "endedEarly" | "isMaking">;
  readonly circuits: CircuitRegistry;
  readonly adoption: CircuitAdoption;
  readonly ownership: Pick<CircuitOwnership, "isSure">;
  readonly replicas: FabricReplicas;
  readonly exchange: Pick<RouteExchange, "unroute">;
  readonly rerouter: Rerouter;
  readonly links: LinkMessages;
  readonly log: Logger;
}

/**
 * What routers say about the circuits that they carry: an end closed, they cannot forward one, or it is idle. A circuit that is not known here may be another
 * controller's. Source: docs/protocol/fabric.md, "Faults"; docs/protocol/replicas.md, "Circuits".
 */
export class CircuitReports {
  readonly #parts: CircuitReportsParts;
  readonly #elsewhere: CircuitsElsewhere;
  readonly #stop: () => void;

  constructor(parts: CircuitReportsParts) {
    this.#parts = parts;
    const { replicas, log } = parts;
    this.#elsewhere = new CircuitsElsewhere({ replicas, onOver: (report) => this.#unrouteUnknown(report), log });
    this.#stop = replicas.onReports((reports) => this.#passedOn(reports));
  }

  attach(router: RouterConnection): void {
    onMessage(router, ControlType.Fault, ctrlPb.FaultSchema, (body, { headers }) =>
      this.#fault(router, body, headers.getString(ControlHeader.CircuitOwner)),
    );
    onMessage(router, ControlType.CircuitConfirmation, ctrlPb.CircuitConfirmationSchema, (body, message) =>
      serveNotice(router, router.parallelLane, message, () =>
        this.#confirm(router.id, idleOf(body), message.headers.getString(ControlHeader.CircuitOwner)),
      ),
    );
  }

  close(): void {
    this.#stop();
    this.#elsewhere.close();
  }

  #fault(router: RouterConnection, body: ctrlPb.Fault, owner: string | undefined): void {
    const { links, log } = this.#parts;
    switch (body.subject) {
      case FaultSubject.IngressFault:
      case FaultSubject.EgressFault:
        this.#ended(router.id, body.id, owner);
        return;
      case FaultSubject.LinkFault:
      case FaultSubject.LinkDuplicate:
        links.fault(router, body.id, body.iteration, body.subject === FaultSubject.LinkDuplicate);
        return;
      case FaultSubject.ForwardFault:
        this.#unforwardable(router.id, body.id, owner, true);
        return;
      case FaultSubject.UnknownOwnerForwardFault:
        this.#unforwardable(router.id, body.id, owner, false);
        return;
      default:
        log.warn({ routerId: router.id, subject: body.subject }, "a fault with an unknown subject is ignored");
    }
  }

  #ended(routerId: string, circuitId: string, owner: string | undefined): void {
    const { circuits, builder } = this.#parts;
    const isKnown = builder.isMaking(circuitId) || circuits.get(circuitId) !== undefined;
    this.#endedHere(routerId, circuitId);
    const report = { kind: "ended", circuitId, routerId } as const;
    if (!isKnown) this.#elsewhere.offer([{ report, owner, isUnrouted: false }]);
  }

  #endedHere(routerId: string, circuitId: string): void {
    const { circuits, builder, adoption } = this.#parts;
    if (circuits.isCarriedBy(circuitId, routerId)) {
      circuits.end(circuitId, false, "an end closed");
      return;
    }
    builder.endedEarly(circuitId, routerId);
    adoption.ended(circuitId, routerId);
  }

  #unforwardable(routerId: string, ids: string, owner: string | undefined, isUnrouted: boolean): void {
    const unknown: UnknownReport[] = [];
    for (const circuitId of ids.split(" ", MAX_FAULTS).filter((id) => id !== "")) {
      if (this.#parts.circuits.get(circuitId) === undefined) {
        // Routers say it again as long as it is true.
        unknown.push({ report: { kind: "unforwardable", circuitId, routerId }, owner, isUnrouted });
      } else this.#moveOrUnroute(routerId, circuitId);
    }
    this.#elsewhere.offer(unknown);
  }

  #moveOrUnroute(routerId: string, circuitId: string): void {
    const { circuits, rerouter, log } = this.#parts;
    if (!circuits.isCarriedBy(circuitId, routerId)) {
      this.#unroute(routerId, circuitId);
      return;
    }
    log.info({ circuitId, routerId }, "a router cannot forward a circuit");
    rerouter.forwardFault(circuitId);
  }

  /** A router has circuits without traffic and asks whether they still exist. */
  async #confirm(routerId: string, idle: readonly Idle[], owner: string | undefined): Promise<void> {
    const { circuits, model } = this.#parts;
    const services = new Map<string, CircuitService | undefined>();
    const unknown: UnknownReport[] = [];
    for (const { circuitId, idleNs } of idle) {
      const circuit = circuits.get(circuitId);
      if (circuit === undefined) {
        unknown.push({ report: { kind: "idle", circuitId, routerId, idleNs }, owner, isUnrouted: true });
        continue;
      }
      if (!circuits.isCarriedBy(circuitId, routerId)) {
        this.#unroute(routerId, circuitId);
        continue;
      }
      const { serviceId } = circuit;
      if (!services.has(serviceId)) services.set(serviceId, await model.findService(serviceId));
      const service = services.get(serviceId);
      if (service === undefined) {
        circuits.end(circuitId, true, "the service was deleted");
      } else if (
        idleNs !== undefined &&
        service.maxIdleTimeMs > 0 &&
        idleNs >= BigInt(service.maxIdleTimeMs) * NS_PER_MS &&
        isEnd(circuit, routerId)
      ) {
        circuits.end(circuitId, true, "idle for longer than the service allows");
      }
    }
    this.#elsewhere.offer(unknown);
  }

  #unrouteUnknown({ circuitId, routerId }: CircuitReport): void {
    const { circuits, adoption, builder } = this.#parts;
    const isKnown = circuits.get(circuitId) !== undefined || builder.isMaking(circuitId);
    if (!isKnown && !adoption.isAwaited(circuitId, routerId)) this.#unroute(routerId, circuitId);
  }

  #unroute(routerId: string, circuitId: string): void {
    const { ownership, exchange } = this.#parts;
    if (ownership.isSure) exchange.unroute(routerId, circuitId, true);
  }

  /** Another controller has heard of circuits of this one. What this one does not know is passed on no further. */
  async #passedOn(reports: readonly CircuitReport[]): Promise<void> {
    const idle = new Map<string, Idle[]>();
    for (const report of reports) {
      const { circuitId, routerId } = report;
      if (report.kind === "ended") this.#endedHere(routerId, circuitId);
      else if (this.#parts.circuits.get(circuitId) === undefined) continue;
      else if (report.kind === "unforwardable") this.#moveOrUnroute(routerId, circuitId);
      else idle.getOrInsertComputed(routerId, () => []).push(report);
    }
    for (const [routerId, circuits] of idle) await this.#confirm(routerId, circuits, undefined);
  }
}

interface Idle {
  readonly circuitId: string;
  /** For how long; the router may not say. */
  readonly idleNs: bigint | undefined;
}

function idleOf({ circuitIds, idleTimes }: ctrlPb.CircuitConfirmation): Idle[] {
  return circuitIds.map((circuitId) => ({ circuitId, idleNs: idleTimes[circuitId] }));
}
