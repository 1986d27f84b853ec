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

const { FaultSubject } = ctrlPb;
const NS_PER_MS = 1_000_000n;
/** Circuits taken from one report; the router repeats the others. */
const MAX_FAULTS = 10_000;
/** A circuit whose controller has been gone for so long, and that no other one has taken over, is over. */
const GIVEN_UP_MS = 150_000;

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

/** A report about a circuit that is not known here. */
interface UnknownReport {
  readonly report: CircuitReport;
  /** Id of the controller that the router files the circuit under; undefined: this one, or the router does not say. */
  readonly owner: string | undefined;
  /** The router drops the circuit if it is over. */
  readonly isUnrouted: boolean;
}

/**
 * What routers say about the circuits that they carry: an end closed, they cannot forward one, or it is idle. A circuit that is not known here may be another
 * controller's. Source: docs/protocol/fabric.md, "Faults"; docs/protocol/replicas.md, "Circuits".
 */
export class CircuitReports {
  readonly #parts: CircuitReportsParts;
  readonly #stop: () => void;

  constructor(parts: CircuitReportsParts) {
    this.#parts = parts;
    const { replicas, log } = parts;
    this.#stop = replicas.onReport((report) => {
      this.#passedOn(report).catch((err: unknown) => log.error({ err }, "a report about a circuit failed"));
    });
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
    const { circuits, builder, adoption } = this.#parts;
    if (circuits.isCarriedBy(circuitId, routerId)) {
      circuits.end(circuitId, false, "an end closed");
      return;
    }
    const isKnown = builder.isMaking(circuitId) || circuits.get(circuitId) !== undefined;
    builder.endedEarly(circuitId, routerId);
    adoption.ended(circuitId, routerId);
    const report = { kind: "ended", circuitId, routerId } as const;
    if (!isKnown) this.#notKnown([{ report, owner, isUnrouted: false }]);
  }

  #unforwardable(routerId: string, ids: string, owner: string | undefined, isUnrouted: boolean): void {
    const unknown: UnknownReport[] = [];
    for (const circuitId of ids.split(" ", MAX_FAULTS).filter((id) => id !== "")) {
      if (this.#parts.circuits.get(circuitId) === undefined) {
        // Routers say it again as long as it is true.
        unknown.push({ report: { kind: "unforwardable", circuitId, routerId }, owner, isUnrouted });
      } else this.#moveOrUnroute(routerId, circuitId);
    }
    this.#notKnown(unknown);
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
    this.#notKnown(unknown);
  }

  #notKnown(unknown: readonly UnknownReport[]): void {
    const { replicas, log } = this.#parts;
    if (!replicas.isShared) {
      for (const { report, isUnrouted } of unknown) if (isUnrouted) this.#unrouteUnknown(report);
    } else if (unknown.length > 0) {
      // Routers repeat what matters.
      this.#elsewhere(unknown).catch((err: unknown) => log.debug({ err }, "whose a circuit is could not be looked up"));
    }
  }

  /** Another controller has the circuits, or none. */
  async #elsewhere(unknown: readonly UnknownReport[]): Promise<void> {
    const { replicas } = this.#parts;
    const owners = await replicas.ownersOf(unknown.map(({ report }) => report.circuitId));
    for (const { report, owner: filedUnder, isUnrouted } of unknown) {
      const owner = owners.get(report.circuitId);
      if (owner !== undefined) replicas.pass(owner, report);
      else if (filedUnder === undefined) {
        if (isUnrouted) this.#unrouteUnknown(report);
      } else if (replicas.goneForMs(filedUnder) === 0) replicas.pass(filedUnder, report);
      else if (isUnrouted && replicas.goneForMs(filedUnder) >= GIVEN_UP_MS) this.#unrouteUnknown(report);
    }
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

  /** Another controller has heard of a circuit of this one. */
  async #passedOn(report: CircuitReport): Promise<void> {
    const { circuitId, routerId } = report;
    if (this.#parts.circuits.get(circuitId) === undefined) return;
    if (report.kind === "ended") this.#ended(routerId, circuitId, undefined);
    else if (report.kind === "unforwardable") this.#moveOrUnroute(routerId, circuitId);
    else await this.#confirm(routerId, [report], undefined);
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
