import { errorText } from "@sallyport/async";
import {
  ControlHeader,
  ControlType,
  ctrlPb,
  DestinationType,
  encodeControl,
  type Logger,
  MAX_CIRCUIT_ID_LENGTH,
  type Message,
  type Outgoing,
} from "@sallyport/wire";
import type { Mesh } from "../links/mesh.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import type { CircuitRoute } from "./circuit.ts";
import type { CircuitTrace, TraceOf } from "./circuit-traces.ts";
import { type PeerData, peerDataOf, peerDataProblem } from "./peer-data.ts";

/** What the terminating router has to dial. */
interface EgressTarget {
  readonly binding: string;
  /** Address of the terminator. */
  readonly destination: string;
  readonly peerData: PeerData;
}

interface RouteOrder {
  readonly circuitId: string;
  /** Of the circuit. */
  readonly requestedAt: number;
  readonly attempt: number;
  readonly route: CircuitRoute;
  /** Absent on a reroute over several routers: the terminating xgress exists. */
  readonly egress?: EgressTarget;
  readonly tags: Readonly<Record<string, string>>;
  /** Time the routers have left for dialing; not negative. */
  readonly dialTimeoutMs: number;
  /** How long to wait for all answers. */
  readonly waitMs: number;
}

export interface RouteFailure {
  /** `timeout`: no answer; `lost`: the router's channel ended or was not there; `refused`: the router answered with an error. */
  readonly kind: "timeout" | "lost" | "refused";
  /** The router it is about; absent when several did not answer. */
  readonly routerId?: string | undefined;
  /** One of `RouteErrorCode`, for a refusal. */
  readonly code?: number;
  readonly message: string;
}

/** `peerData` is that of the terminating router's answer. */
type RouteOutcome =
  | { readonly ok: true; readonly peerData: PeerData }
  | { readonly ok: false; readonly failure: RouteFailure };

interface PendingAttempt {
  readonly attempt: number;
  readonly waitingFor: Set<string>;
  readonly lastRouter: string;
  peerData: PeerData;
  readonly settle: (outcome: RouteOutcome) => void;
}

interface RouteExchangeParts {
  readonly mesh: Mesh;
  /** Is the circuit up, with the router on its path? */
  readonly isCarriedBy: (circuitId: string, routerId: string) => boolean;
  readonly traceOf: TraceOf;
  /** False while another controller may have taken circuits over: what a router is told makes it file the circuit under this controller. */
  readonly isSure: () => boolean;
  readonly log: Logger;
}

const NS_PER_MS = 1_000_000n;

/**
 * Tells the routers of a path to carry a circuit and gathers their answers. An answer belongs to the attempt whose number it names. The controller answers
 * one to a given-up attempt with an Unroute, unless the router carries the circuit by another attempt. Source: docs/protocol/fabric.md, "Circuits".
 */
export class RouteExchange {
  readonly #parts: RouteExchangeParts;
  readonly #pending = new Map<string, PendingAttempt>();

  constructor(parts: RouteExchangeParts) {
    this.#parts = parts;
  }

  /** Sends all Route messages of an attempt at once; settles with the first failure or the last success. Never rejects. */
  async dispatch(order: RouteOrder): Promise<RouteOutcome> {
    const plan = planRoutes(order.route);
    const lastRouter = plan.at(-1)?.routerId;
    if (lastRouter === undefined) throw new Error(`circuit ${order.circuitId} has a path without routers`);
    const { promise, resolve } = Promise.withResolvers<RouteOutcome>();
    const pending: PendingAttempt = {
      attempt: order.attempt,
      waitingFor: new Set(plan.map((p) => p.routerId)),
      lastRouter,
      peerData: new Map(),
      settle: resolve,
    };
    this.#pending.set(order.circuitId, pending);
    const timer = setTimeout(() => {
      const silent = [...pending.waitingFor].join(", ");
      const message = `no answer from router ${silent} within ${order.waitMs} ms`;
      const [routerId] = pending.waitingFor.size === 1 ? pending.waitingFor : [];
      resolve({ ok: false, failure: { kind: "timeout", routerId, message } });
    }, order.waitMs);
    for (const planned of plan) {
      const { routerId } = planned;
      const router = this.#parts.mesh.router(routerId);
      if (router?.send(this.#message(order, planned), router.wayOf(order.requestedAt)) === true) continue;
      resolve({ ok: false, failure: { kind: "lost", routerId, message: `router ${routerId} is not connected` } });
      break;
    }
    const outcome = await promise;
    clearTimeout(timer);
    if (this.#pending.get(order.circuitId) === pending) this.#pending.delete(order.circuitId);
    return outcome;
  }

  /** Moves a circuit: the routers of the new path one after the other, in path order. Failures are logged; true when all succeeded. */
  async moveAlong(order: Omit<RouteOrder, "attempt">): Promise<boolean> {
    let isComplete = true;
    for (const planned of planRoutes(order.route)) {
      const failure = await this.#moveOne({ ...order, attempt: REROUTE_ATTEMPT }, planned);
      if (failure === undefined) continue;
      isComplete = false;
      this.#parts.log.warn(
        { circuitId: order.circuitId, routerId: planned.routerId, failure },
        "a router of the new path did not take the circuit",
      );
    }
    return isComplete;
  }

  /** A RouteResult (type 1022) arrived. */
  handleResult(from: RouterConnection, message: Message): void {
    if (message.body.length > MAX_CIRCUIT_ID_LENGTH) return;
    const circuitId = message.body.toString("utf8");
    const attempt = message.headers.getU32(ControlHeader.RouteResultAttempt);
    if (attempt === undefined) {
      this.#parts.log.warn({ routerId: from.id, circuitId }, "a route result without an attempt number is ignored");
      return;
    }
    const pending = this.#pending.get(circuitId);
    if (pending === undefined) {
      // The answer to an attempt before the one that succeeded must not end the circuit on a router that carries it.
      const isIdle = attempt !== REROUTE_ATTEMPT && !this.#parts.isCarriedBy(circuitId, from.id);
      if (isIdle) this.unroute(from.id, circuitId, true);
      return;
    }
    if (pending.attempt !== attempt || !pending.waitingFor.has(from.id)) return;
    // Success is the presence of the header, whatever its value.
    if (!message.headers.has(ControlHeader.RouteResultSuccess)) {
      pending.settle({ ok: false, failure: refusalOf(from.id, message) });
      return;
    }
    pending.waitingFor.delete(from.id);
    if (from.id === pending.lastRouter) {
      pending.peerData = peerDataOf(message.headers);
      const problem = peerDataProblem(pending.peerData);
      if (problem !== undefined) {
        const failure = { kind: "refused", routerId: from.id, code: 0, message: problem } as const;
        pending.settle({ ok: false, failure });
        return;
      }
    }
    if (pending.waitingFor.size === 0) pending.settle({ ok: true, peerData: pending.peerData });
  }

  /** A router's channel ended: what waits for it fails now. */
  routerLost(routerId: string): void {
    for (const pending of this.#pending.values()) {
      if (!pending.waitingFor.has(routerId)) continue;
      const message = `router ${routerId} lost its connection`;
      pending.settle({ ok: false, failure: { kind: "lost", routerId, message } });
    }
  }

  /** Tells a router to forget a circuit: at once, or (`now` false) when its traffic has run dry. `requestedAt`: of the circuit, where it is known. */
  unroute(routerId: string, circuitId: string, now: boolean, requestedAt = performance.now()): void {
    const body = encodeControl(ctrlPb.UnrouteSchema, { circuitId, now });
    const router = this.#parts.mesh.router(routerId);
    router?.send({ contentType: ControlType.Unroute, body }, router.wayOf(requestedAt));
  }

  /** Ends everything that waits. */
  close(): void {
    for (const pending of this.#pending.values()) {
      pending.settle({ ok: false, failure: { kind: "lost", message: "the controller is shutting down" } });
    }
  }

  #message(order: RouteOrder, planned: PlannedRoute): Outgoing {
    return routeMessage({ ...order, trace: this.#parts.traceOf(order.tags.clientId ?? "") }, planned);
  }

  /**
   * Has a router file a circuit under this controller, and change nothing else of it. A router that does not have the circuit says so; one of OpenZiti keeps it
   * filed as it is.
   * @returns what was wrong
   */
  takeOver(routerId: string, order: Omit<RouteOrder, "attempt">): Promise<string | undefined> {
    const planned = { routerId, forwards: [], isTerminating: false };
    return this.#moveOne({ ...order, attempt: REROUTE_ATTEMPT }, planned);
  }

  async #moveOne(order: RouteOrder, planned: PlannedRoute): Promise<string | undefined> {
    const connection = this.#parts.mesh.router(planned.routerId);
    if (connection === undefined) return "the router is not connected";
    if (!this.#parts.isSure()) return "another controller may have the circuit now";
    try {
      const options = { timeoutMs: order.waitMs, via: connection.wayOf(order.requestedAt) };
      const reply = await connection.channel.request(this.#message(order, planned), options);
      if (reply.headers.has(ControlHeader.RouteResultSuccess)) return undefined;
      return refusalOf(connection.id, reply).message;
    } catch (error) {
      return errorText(error);
    }
  }
}

function refusalOf(routerId: string, message: Message): RouteFailure {
  const code = message.headers.getByte(ControlHeader.RouteResultErrorCode) ?? 0;
  const text = message.headers.getString(ControlHeader.RouteResultError);
  return { kind: "refused", routerId, code, message: text ?? `router ${routerId} gave no reason` };
}

/** The route that one router of a path gets. */
export function routeMessage(
  order: Omit<RouteOrder, "waitMs" | "requestedAt"> & { readonly trace?: CircuitTrace | undefined },
  planned: PlannedRoute,
): Outgoing {
  const { route, trace, circuitId } = order;
  const egress = planned.isTerminating ? order.egress : undefined;
  const body = encodeControl(ctrlPb.RouteSchema, {
    circuitId,
    attempt: order.attempt,
    ...(egress && {
      egress: { ...egress, address: route.egressId, peerData: Object.fromEntries(egress.peerData) },
    }),
    forwards: planned.forwards.map((f) => ({ srcAddress: f.source, dstAddress: f.destination, dstType: f.toward })),
    ...(trace && { context: { fields: { traceId: trace.traceId, circuitId }, channelMask: trace.channelMask } }),
    timeout: BigInt(Math.max(0, Math.floor(order.dialTimeoutMs))) * NS_PER_MS,
    tags: { ...order.tags },
  });
  return { contentType: ControlType.Route, body };
}

/** Marks a Route that moves an existing circuit. */
const REROUTE_ATTEMPT = 99_969_996;

interface PlannedForward {
  readonly source: string;
  readonly destination: string;
  /** Where the forward leads: `Start` towards the initiating xgress, `End` towards the terminating one, `Link` over a link. */
  readonly toward: DestinationType;
}

interface PlannedRoute {
  readonly routerId: string;
  readonly forwards: readonly PlannedForward[];
  /** This router opens (or, on a reroute, already has) the terminating xgress. */
  readonly isTerminating: boolean;
}

/** One entry per router in path order: each joins what is before it (ingress or a link) with what is behind it (a link or egress), both ways. */
export function planRoutes(route: CircuitRoute): PlannedRoute[] {
  const last = route.routers.length - 1;
  return route.routers.map((routerId, index) => {
    const before = route.links[index - 1];
    const behind = route.links[index];
    const source = before ?? route.ingressId;
    const destination = behind ?? route.egressId;
    const { Start, End, Link } = DestinationType;
    return {
      routerId,
      forwards: [
        { source, destination, toward: behind === undefined ? End : Link },
        { source: destination, destination: source, toward: before === undefined ? Start : Link },
      ],
      isTerminating: index === last,
    };
  });
}
