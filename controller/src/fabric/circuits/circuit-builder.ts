import { type Logger, PeerData as PeerDataKey, RouteErrorCode, RouterBinding, randomBase62Id } from "@sallyport/wire";
import { CircuitFailureCause, type EmitEvent } from "../fabric-events.ts";
import type { FabricOptions } from "../options.ts";
import type { CircuitService, FabricModel, TerminatorRecord } from "../ports.ts";
import type { TerminatorSearch } from "../terminators/terminator-search.ts";
import type { Circuit, CircuitGrant, CircuitRoute } from "./circuit.ts";
import { tagOfGrant } from "./circuit-grant.ts";
import type { CircuitRegistry } from "./circuit-registry.ts";
import type { DynamicCosts } from "./costs.ts";
import { endAddresses, type PeerData, peerDataText, withoutAddresses } from "./peer-data.ts";
import type { RouteExchange, RouteFailure } from "./route-exchange.ts";

/** A circuit that policy allows. */
export interface CircuitRequest {
  readonly service: CircuitService;
  /** Router the circuit begins at. */
  readonly ingressRouterId: string;
  /** When it arrived, a time of `performance.now()`. */
  readonly requestedAt: number;
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

interface CircuitBuilderParts {
  readonly model: Pick<FabricModel, "deleteUnchanged" | "updateTerminator" | "findTerminator">;
  readonly search: TerminatorSearch;
  readonly exchange: RouteExchange;
  readonly circuits: CircuitRegistry;
  readonly costs: DynamicCosts;
  readonly emit: EmitEvent;
  /** Another controller takes the circuits over when this one is gone: routers keep for it what allows them. */
  readonly isShared: boolean;
  readonly options: Pick<FabricOptions, "createCircuitRetries" | "routeTimeoutMs" | "now">;
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
/** Dead terminators that one request may find without counting them as its attempts; a bound against a router that knows none. */
const MAX_GONE_TERMINATORS = 16;

const CAUSE_OF_CODE: Readonly<Record<number, CircuitFailureCause>> = {
  [RouteErrorCode.Generic]: CircuitFailureCause.RouterGeneric,
  [RouteErrorCode.InvalidTerminator]: CircuitFailureCause.RouterInvalidTerminator,
  [RouteErrorCode.MisconfiguredTerminator]: CircuitFailureCause.RouterMisconfiguredTerminator,
  [RouteErrorCode.DialTimedOut]: CircuitFailureCause.RouterDialTimedOut,
  [RouteErrorCode.ConnectionRefused]: CircuitFailureCause.RouterConnectionRefused,
  [RouteErrorCode.RejectedByApplication]: CircuitFailureCause.RouterRejectedByApplication,
  [RouteErrorCode.DnsFailed]: CircuitFailureCause.RouterDnsFailed,
  [RouteErrorCode.PortNotAllowed]: CircuitFailureCause.RouterPortNotAllowed,
  [RouteErrorCode.InvalidLinkDestination]: CircuitFailureCause.RouterInvalidLinkDestination,
  [RouteErrorCode.NoResources]: CircuitFailureCause.RouterNoResources,
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
    const { options, exchange, circuits, search, isShared, emit } = this.#parts;
    const { service, clientId, instanceId, requestedAt } = request;
    const startedAt = performance.now();
    const deadline = startedAt + options.routeTimeoutMs;
    const { told } = making;
    let lastFailure: RouteFailure | undefined;
    let terminatorId = "";
    const failed = (cause: CircuitFailureCause, message: string) => {
      for (const id of told) exchange.unroute(id, circuitId, true, requestedAt);
      const timespanMs = Math.round(performance.now() - startedAt);
      const what = { circuitId, serviceId: service.id, clientId, terminatorId, instanceId };
      const { ingressRouterId } = request;
      emit({ kind: "circuit-failed", ...what, ingressRouterId, timespanMs, cause, message });
      return new CircuitError(circuitId, cause, message);
    };

    let failures = 0;
    for (let attempt = 0; failures < options.createCircuitRetries; attempt++) {
      const choice = await search.find(
        {
          ...{ service, instanceId, from: request.ingressRouterId },
          stickyId: peerDataText(request.peerData, PeerDataKey.StickinessToken),
        },
        startedAt + options.routeTimeoutMs / 2,
      );
      if (!choice.ok) throw failed(choice.cause, choice.message);

      const { terminator, path, stickyId } = choice;
      terminatorId = terminator.id;
      const { routers, links } = path;
      const route: CircuitRoute = { routers, links, ingressId: randomBase62Id(), egressId: randomBase62Id() };
      for (const id of routers) told.add(id);
      const tags = { ...tagsOf(request, terminator), ...(isShared && grantTags(request.grant)) };
      const { binding, address: destination } = terminator;
      const outcome = await exchange.dispatch({
        ...{ circuitId, requestedAt, attempt, route, tags },
        egress: { binding, destination, peerData: withoutAddresses(request.peerData) },
        dialTimeoutMs: Math.round(deadline - performance.now()),
        waitMs: options.routeTimeoutMs,
      });
      if (outcome.ok) {
        for (const id of told) if (!routers.includes(id)) exchange.unroute(id, circuitId, true, requestedAt);
        const made = { id: circuitId, route, tags };
        const now = new Date(options.now());
        const circuit = newCircuit(request, made, terminator, outcome.peerData, stickyId, now);
        circuits.opened(circuit, Math.round(performance.now() - startedAt));
        // The initiator still gets its answer; the close follows to it through the circuit.
        if (making.hasEnded) setImmediate(() => circuits.end(circuitId, false, "an end closed"));
        return circuit;
      }
      lastFailure = outcome.failure;
      emit({ kind: "dial-failed", circuitId, serviceId: service.id, terminatorId, cause: causeOf(lastFailure) });
      const isGone = await this.#punish(terminator, outcome.failure);
      // A host that died leaves a terminator on each of its routers: finding these must not use up the attempts for the living ones.
      if (!isGone || attempt >= MAX_GONE_TERMINATORS) failures++;
    }
    const message = `exceeded maximum [${options.createCircuitRetries}] retries creating circuit [c/${circuitId}] (${lastFailure?.message ?? "no attempt was made"})`;
    throw failed(causeOf(lastFailure), message);
  }

  /** What a failed attempt means for its terminator. @returns whether it was one that is gone, and is deleted now */
  async #punish(terminator: TerminatorRecord, failure: RouteFailure): Promise<boolean> {
    const isItsRouter = failure.routerId === terminator.routerId;
    if (isItsRouter || failure.kind === "timeout") this.#parts.costs.dialFailed(terminator.id, performance.now());
    if (!isItsRouter || failure.kind !== "refused" || failure.code !== RouteErrorCode.InvalidTerminator) {
      return false;
    }
    const { model, log, costs } = this.#parts;
    const { id: terminatorId, routerId } = terminator;
    try {
      if (ROUTER_OWNED_BINDINGS.has(terminator.binding)) {
        const deleted = await model.deleteUnchanged(routerId, [terminator]);
        // Its router has asked for it again since the dial, at this controller or another one.
        if (deleted.length === 0 && (await model.findTerminator(terminatorId)) !== undefined) return false;
        log.info({ terminatorId, routerId }, "the router does not know this terminator (any more); it is deleted");
        costs.forget(terminatorId);
        return true;
      }
      log.warn({ terminatorId, routerId }, "the router cannot use this terminator; its precedence is failed now");
      await model.updateTerminator(terminatorId, { precedence: "failed" }, terminator.version);
    } catch (err) {
      log.error({ terminatorId, err }, "a terminator its router refused could not be taken out of use");
    }
    return false;
  }
}

function causeOf(failure: RouteFailure | undefined): CircuitFailureCause {
  if (failure?.kind !== "refused") return CircuitFailureCause.RouterResponseTimeout;
  return CAUSE_OF_CODE[failure.code ?? RouteErrorCode.Generic] ?? CircuitFailureCause.RouterGeneric;
}

function tagsOf({ service, instanceId, clientId }: CircuitRequest, { hostId }: TerminatorRecord) {
  return { serviceId: instanceId === "" ? service.id : `${instanceId}@${service.id}`, clientId, hostId };
}

function grantTags(grant: CircuitGrant): Readonly<Record<string, string>> {
  const tag = tagOfGrant(grant);
  return tag === undefined ? {} : { grant: tag };
}

function newCircuit(
  request: CircuitRequest,
  made: Pick<Circuit, "id" | "route" | "tags">,
  terminator: TerminatorRecord,
  answered: PeerData,
  stickyId: string | undefined,
  now: Date,
): Circuit {
  const peerData = new Map([...terminator.peerData, ...withoutAddresses(answered)]);
  if (stickyId !== undefined) peerData.set(PeerDataKey.StickinessToken, Buffer.from(stickyId, "utf8"));
  return {
    ...made,
    serviceId: request.service.id,
    terminatorId: terminator.id,
    clientId: request.clientId,
    grant: request.grant,
    hostId: terminator.hostId,
    addresses: endAddresses(request.peerData, answered),
    requestedAt: request.requestedAt,
    createdAt: now,
    updatedAt: now,
    peerData,
  };
}
