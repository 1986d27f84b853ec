import { type Logger, PeerData as PeerDataKey, RouteErrorCode, RouterBinding, randomBase62Id } from "@sallyport/wire";
import { CircuitFailureCause, type EmitEvent } from "../fabric-events.ts";
import type { FabricOptions } from "../options.ts";
import type { CircuitService, FabricModel, TerminatorRecord } from "../ports.ts";
import type { TerminatorSearch } from "../terminators/terminator-search.ts";
import type { Circuit, CircuitGrant, CircuitRoute } from "./circuit.ts";
import type { CircuitRegistry } from "./circuit-registry.ts";
import type { DynamicCosts } from "./costs.ts";
import { endAddresses, type PeerData, peerDataText, withoutAddresses } from "./peer-data.ts";
import type { RouteExchange, RouteFailure } from "./route-exchange.ts";

/** Wait of a circuit request for its terminating side. */
export interface CircuitRequest {
  readonly service: CircuitService;
  /** Router the circuit begins at. */
  readonly ingressRouterId: string;
  /** Empty = none asked for. */
  readonly instanceId: string;
  /** From the initiator to the terminating side. */
  readonly peerData: PeerData;
  readonly clientId: string;
  readonly grant: CircuitGrant;
}

/** No circuit came about. The message is what the initiator gets to read. */
export class CircuitError extends Error {
  readonly circuitId: string;
  readonly failure: CircuitFailureCause;

  constructor(circuitId: string, failure: CircuitFailureCause, message: string) {
    super(message);
    this.name = "CircuitError";
    this.circuitId = circuitId;
    this.failure = failure;
  }
}

export interface CircuitBuilderParts {
  readonly model: Pick<FabricModel, "deleteTerminators" | "updateTerminator">;
  readonly search: TerminatorSearch;
  readonly exchange: RouteExchange;
  readonly circuits: CircuitRegistry;
  readonly costs: DynamicCosts;
  readonly emit: EmitEvent;
  readonly options: Pick<FabricOptions, "createCircuitRetries" | "routeTimeoutMs">;
  readonly log: Logger;
}

interface Making {
  /** Routers that got a route of the circuit by some attempt. */
  readonly told: Set<string>;
  /** An end has closed already. */
  hasEnded: boolean;
}

/** Bindings whose terminators live on their router only: when the router does not know one, it is gone for good. */
const ROUTER_OWNED_BINDINGS: ReadonlySet<string> = new Set(Object.values(RouterBinding));
/** So many dead terminators are found out by one request without counting as its attempts; a bound against a router that knows none. */
const MAX_GONE_TERMINATORS = 16;

const CAUSE_OF_CODE: Readonly<Record<number, CircuitFailureCause>> = {
  [RouteErrorCode.Generic]: CircuitFailureCause.RouterGeneric,
  [RouteErrorCode.InvalidTerminator]: CircuitFailureCause.RouterInvalidTerminator,
  [RouteErrorCode.MisconfiguredTerminator]: CircuitFailureCause.RouterMisconfiguredTerminator,
  [RouteErrorCode.DialTimedOut]: CircuitFailureCause.RouterDialTimedOut,
  [RouteErrorCode.ConnectionRefused]: CircuitFailureCause.RouterConnectionRefused,
};

/**
 * Makes circuits: chooses a terminator and a path, has the routers take it, and tries again with what remains when they do not.
 *
 * Source: docs/protocol/fabric.md, "Circuits".
 */
export class CircuitBuilder {
  readonly #parts: CircuitBuilderParts;
  /** Circuits being made. */
  readonly #making = new Map<string, Making>();

  constructor(parts: CircuitBuilderParts) {
    this.#parts = parts;
  }

  /** @throws CircuitError */
  async create(request: CircuitRequest): Promise<Circuit> {
    const circuitId = randomBase62Id();
    const making: Making = { told: new Set(), hasEnded: false };
    this.#making.set(circuitId, making);
    try {
      return await this.#create(request, circuitId, making);
    } finally {
      this.#making.delete(circuitId);
    }
  }

  /** Is a circuit of this id being made? */
  isMaking(circuitId: string): boolean {
    return this.#making.has(circuitId);
  }

  /** A router with a route of the circuit reports that an end of it closed, before all routers have answered. */
  endedEarly(circuitId: string, routerId: string): void {
    const making = this.#making.get(circuitId);
    if (making?.told.has(routerId) === true) making.hasEnded = true;
  }

  async #create(request: CircuitRequest, circuitId: string, making: Making): Promise<Circuit> {
    const { options, exchange, circuits, search } = this.#parts;
    const startedAt = Date.now();
    const deadline = startedAt + options.routeTimeoutMs;
    const { told } = making;
    let lastFailure: RouteFailure | undefined;
    let lastTerminatorId = "";
    const failed = (cause: CircuitFailureCause, message: string) =>
      this.#failed(request, { circuitId, told, startedAt, terminatorId: lastTerminatorId }, cause, message);

    let failures = 0;
    for (let attempt = 0; failures < options.createCircuitRetries; attempt++) {
      const choice = await search.find(
        {
          service: request.service,
          instanceId: request.instanceId,
          from: request.ingressRouterId,
          stickyId: peerDataText(request.peerData, PeerDataKey.StickinessToken),
        },
        startedAt + options.routeTimeoutMs / 2,
      );
      if (!choice.ok) throw failed(choice.cause, choice.message);

      const { terminator } = choice;
      lastTerminatorId = terminator.id;
      const route: CircuitRoute = {
        routers: choice.path.routers,
        links: choice.path.links,
        ingressId: randomBase62Id(),
        egressId: randomBase62Id(),
      };
      for (const id of route.routers) told.add(id);
      const tags = tagsOf(request, terminator);
      const outcome = await exchange.dispatch({
        circuitId,
        attempt,
        route,
        egress: {
          binding: terminator.binding,
          destination: terminator.address,
          peerData: withoutAddresses(request.peerData),
        },
        tags,
        dialTimeoutMs: deadline - Date.now(),
        waitMs: options.routeTimeoutMs,
      });
      if (outcome.ok) {
        for (const id of told) if (!route.routers.includes(id)) exchange.unroute(id, circuitId, true);
        const circuit = newCircuit(request, circuitId, route, terminator, outcome.peerData, tags, choice.stickyId);
        circuits.opened(circuit, Date.now() - startedAt);
        // The initiator still gets its answer; the close follows to it through the circuit.
        if (making.hasEnded) setImmediate(() => circuits.end(circuitId, false, "an end closed"));
        return circuit;
      }
      lastFailure = outcome.failure;
      this.#parts.emit({
        kind: "dial-failed",
        circuitId,
        serviceId: request.service.id,
        terminatorId: terminator.id,
        cause: causeOf(lastFailure),
      });
      const isGone = await this.#punish(terminator, outcome.failure);
      // A host that died leaves a terminator on each of its routers: finding them out must not use up the attempts for the living ones.
      if (!isGone || attempt >= MAX_GONE_TERMINATORS) failures++;
    }
    const message = `exceeded maximum [${options.createCircuitRetries}] retries creating circuit [c/${circuitId}] (${lastFailure?.message ?? "no attempt was made"})`;
    throw failed(causeOf(lastFailure), message);
  }

  #failed(
    request: CircuitRequest,
    attempt: {
      readonly circuitId: string;
      readonly told: ReadonlySet<string>;
      readonly startedAt: number;
      readonly terminatorId: string;
    },
    cause: CircuitFailureCause,
    message: string,
  ): CircuitError {
    const { circuitId, told, startedAt, terminatorId } = attempt;
    for (const id of told) this.#parts.exchange.unroute(id, circuitId, true);
    this.#parts.emit({
      kind: "circuit-failed",
      circuitId,
      serviceId: request.service.id,
      clientId: request.clientId,
      terminatorId,
      instanceId: request.instanceId,
      timespanMs: Date.now() - startedAt,
      cause,
      message,
    });
    return new CircuitError(circuitId, cause, message);
  }

  /** What a failed attempt means for its terminator. @returns whether it was one that is gone, and is deleted now */
  async #punish(terminator: TerminatorRecord, failure: RouteFailure): Promise<boolean> {
    const isItsRouter = failure.routerId === terminator.routerId;
    if (isItsRouter || failure.kind === "timeout") this.#parts.costs.dialFailed(terminator.id, Date.now());
    if (!isItsRouter || failure.kind !== "refused" || failure.code !== RouteErrorCode.InvalidTerminator) {
      return false;
    }
    const { model, log, costs } = this.#parts;
    try {
      if (ROUTER_OWNED_BINDINGS.has(terminator.binding)) {
        log.info(
          { terminatorId: terminator.id, routerId: terminator.routerId },
          "the router does not know this terminator (any more); it is deleted",
        );
        await model.deleteTerminators(terminator.routerId, [terminator.id]);
        costs.forget(terminator.id);
        return true;
      } else {
        log.warn(
          { terminatorId: terminator.id, routerId: terminator.routerId },
          "the router cannot use this terminator; its precedence is failed now",
        );
        await model.updateTerminator(terminator.id, { precedence: "failed" });
      }
    } catch (err) {
      log.error({ terminatorId: terminator.id, err }, "a terminator its router refused could not be taken out of use");
    }
    return false;
  }
}

function causeOf(failure: RouteFailure | undefined): CircuitFailureCause {
  if (failure?.kind !== "refused") return CircuitFailureCause.RouterResponseTimeout;
  return CAUSE_OF_CODE[failure.code ?? RouteErrorCode.Generic] ?? CircuitFailureCause.RouterGeneric;
}

function tagsOf(request: CircuitRequest, terminator: TerminatorRecord): Record<string, string> {
  const service = request.instanceId === "" ? request.service.id : `${request.instanceId}@${request.service.id}`;
  return {
    serviceId: service,
    clientId: request.clientId,
    hostId: terminator.hostId,
  };
}

function newCircuit(
  request: CircuitRequest,
  id: string,
  route: CircuitRoute,
  terminator: TerminatorRecord,
  answered: PeerData,
  tags: Readonly<Record<string, string>>,
  stickyId: string | undefined,
): Circuit {
  const peerData = new Map([...terminator.peerData, ...withoutAddresses(answered)]);
  if (stickyId !== undefined) peerData.set(PeerDataKey.StickinessToken, Buffer.from(stickyId, "utf8"));
  const now = new Date();
  return {
    id,
    serviceId: request.service.id,
    terminatorId: terminator.id,
    clientId: request.clientId,
    grant: request.grant,
    hostId: terminator.hostId,
    route,
    addresses: endAddresses(request.peerData, answered),
    createdAt: now,
    updatedAt: now,
    tags,
    peerData,
  };
}
