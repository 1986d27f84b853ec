import { Listeners } from "@sallyport/async";
import { ControlType, ctrlPb, decodeControl, encodeControl, InspectionKey, type Logger } from "@sallyport/wire";
import { z } from "zod";
import type { Circuit, CircuitRoute } from "../circuits/circuit.ts";
import type { CircuitAccess } from "../circuits/circuit-access.ts";
import { grantOfTag } from "../circuits/circuit-grant.ts";
import type { CircuitRegistry } from "../circuits/circuit-registry.ts";
import type { RouteExchange } from "../circuits/route-exchange.ts";
import type { FabricModel } from "../ports.ts";
import type { FabricReplicas } from "../replicas.ts";
import { MAX_FIELDS_OF_REPORTS } from "../routers/inbound.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import type { CircuitOwnership } from "./circuit-ownership.ts";

const ASK_TIMEOUT_MS = 30_000;
/** How long the other routers of a circuit's path may take to connect. */
const PATIENCE_MS = 120_000;
const WHOSE = ["serviceId", "clientId", "hostId", "grant"] as const;
const NO_ADDRESSES = { initiatorLocal: "", initiatorRemote: "", terminatorLocal: "", terminatorRemote: "" };

const report = z.object({
  circuits: z.array(
    z.object({
      id: z.string().min(1),
      ctrlId: z.string(),
      tags: z.record(z.string(), z.string()),
      /** Source and target of each direction: links and addresses of ends. */
      forwards: z.array(z.tuple([z.string(), z.string()])),
      initiator: z.string().optional(),
      terminator: z.string().optional(),
    }),
  ),
});
type Reported = z.infer<typeof report>["circuits"][number];

/** A circuit that routers have and this process does not know. */
interface Awaited {
  readonly byRouter: Map<string, Reported>;
  readonly since: number;
}

interface CircuitAdoptionParts {
  readonly controllerId: string;
  readonly model: Pick<FabricModel, "terminatorsOfService">;
  readonly circuits: CircuitRegistry;
  readonly access: Pick<CircuitAccess, "recheck">;
  readonly exchange: Pick<RouteExchange, "unroute">;
  readonly replicas: FabricReplicas;
  readonly ownership: Pick<CircuitOwnership, "claimed">;
  /** Is a circuit of this id being made? */
  readonly isMaking: (circuitId: string) => boolean;
  readonly now: () => number;
  readonly log: Logger;
}

/** A circuit that its routers have told of completely. */
interface Found {
  readonly id: string;
  readonly route: CircuitRoute;
  readonly tags: Reported["tags"];
  readonly serviceId: string;
  readonly clientId: string;
  /** Id of the controller that its initiating router files it under. */
  readonly filedUnder: string;
}

/**
 * Takes over the circuits of the process before this one, and of other controllers that are gone: routers are asked which they carry, for this controller once, when they
 * first connect. A circuit is taken when the routers' answers fit together from its one end to the other; then it can be moved and ended as any other.
 *
 * Source: docs/protocol/fabric.md, "Restart"; docs/protocol/replicas.md, "Circuits".
 */
export class CircuitAdoption {
  readonly #parts: CircuitAdoptionParts;
  /** Routers that were asked, or are being asked. A second answer could bring back what ended in between. */
  readonly #asked = new Set<string>();
  readonly #asking = new Set<string>();
  readonly #awaited = new Map<string, Awaited>();
  readonly #listeners = new Listeners<[adopted: readonly Circuit[]]>();
  #hasAdopted = false;

  constructor(parts: CircuitAdoptionParts) {
    this.#parts = parts;
  }

  /** Calls `listener` with circuits of other controllers that this one has now. */
  onSucceeded(listener: (adopted: readonly Circuit[]) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Never rejects. `isNewProcess`: what the router said before is over. */
  async connected(router: RouterConnection, isNewProcess: boolean): Promise<void> {
    if (isNewProcess) this.#forget(router.id);
    if (this.#asked.has(router.id)) {
      // While it was away, another controller may have gone.
      const { isShared, isLeader } = this.#parts.replicas;
      if (isShared && isLeader) await this.succeed(router);
      return;
    }
    this.#asked.add(router.id);
    if (!(await this.#ask(router, true))) this.#asked.delete(router.id);
  }

  /** Asks for the circuits of controllers that are gone. Never rejects. @returns whether the router has answered */
  succeed(router: RouterConnection): Promise<boolean> {
    return this.#ask(router, false);
  }

  /** Has any circuit been taken over? */
  get hasAdopted(): boolean {
    return this.#hasAdopted;
  }

  /** May it still turn out that this circuit, unknown yet, is one of those from before? */
  isAwaited(circuitId: string, routerId: string): boolean {
    if (this.#asking.has(routerId)) return true;
    const awaited = this.#awaited.get(circuitId);
    if (awaited === undefined) return false;
    if (performance.now() - awaited.since < PATIENCE_MS) return true;
    this.#awaited.delete(circuitId);
    return false;
  }

  /** An end of a circuit that is not known yet has closed: its routers let it run dry. */
  ended(circuitId: string, routerId: string): void {
    const awaited = this.#awaited.get(circuitId);
    if (awaited?.byRouter.has(routerId) !== true) return;
    this.#awaited.delete(circuitId);
    for (const id of awaited.byRouter.keys()) this.#parts.exchange.unroute(id, circuitId, false);
  }

  /** @returns whether the router has answered */
  async #ask(router: RouterConnection, isFirst: boolean): Promise<boolean> {
    this.#asking.add(router.id);
    try {
      await this.#take(router.id, await ask(router), isFirst);
      return true;
    } catch (err) {
      this.#parts.log.debug({ routerId: router.id, err }, "a router did not tell which circuits it carries");
      return false;
    } finally {
      this.#asking.delete(router.id);
    }
  }

  #forget(routerId: string): void {
    for (const [id, { byRouter, since }] of this.#awaited) {
      byRouter.delete(routerId);
      // Reports that no other router has confirmed are not kept either, however often a router comes back with other ids.
      if (byRouter.size === 0 || performance.now() - since >= PATIENCE_MS) this.#awaited.delete(id);
    }
  }

  async #take(routerId: string, reported: readonly Reported[], isFirst: boolean): Promise<void> {
    const { circuits, isMaking, controllerId, replicas, access, log } = this.#parts;
    const found: Found[] = [];
    for (const circuit of reported) {
      if (circuits.get(circuit.id) !== undefined || isMaking(circuit.id)) continue;
      const isTaken =
        circuit.ctrlId === controllerId ? isFirst : replicas.isLeader && replicas.goneForMs(circuit.ctrlId) > 0;
      if (!isTaken) continue;
      const awaited = this.#awaited.getOrInsertComputed(circuit.id, () => ({
        byRouter: new Map(),
        since: performance.now(),
      }));
      awaited.byRouter.set(routerId, circuit);
      const whole = wholeCircuit(circuit.id, awaited.byRouter);
      if (whole !== undefined) found.push(whole);
    }
    if (found.length === 0) return;
    const claimed = await replicas.claim(found);
    const adopted: Circuit[] = [];
    const succeeded: Circuit[] = [];
    for (const one of found) {
      const circuit = claimed.has(one.id) ? await this.#adopt(one) : undefined;
      // A claim that is refused is of a circuit of another controller: this one need not wait for the circuit's other routers.
      if (!claimed.has(one.id)) this.#awaited.delete(one.id);
      if (circuit === undefined) continue;
      adopted.push(circuit);
      if (one.filedUnder !== controllerId) succeeded.push(circuit);
    }
    if (adopted.length === 0) return;
    const whose = succeeded.length === 0 ? "from before the start of this controller" : "of controllers that are gone";
    log.info({ routerId, circuits: adopted.length }, `circuits ${whose} are known again`);
    this.#listeners.emit(succeeded);
    // An identity that may not use them any more loses them now.
    access.recheck();
  }

  async #adopt({ id, route, tags, serviceId, clientId }: Found): Promise<Circuit | undefined> {
    const { model, circuits, ownership, replicas } = this.#parts;
    const hostId = tags.hostId ?? "";
    const terminators = await model.terminatorsOfService(serviceId);
    // It may have ended while the store was asked, or have been adopted for the answer of another router of its.
    if (!this.#awaited.delete(id)) {
      if (circuits.get(id) === undefined) replicas.ended([id]);
      return undefined;
    }
    const last = route.routers.at(-1);
    const terminator = terminators.find((known) => known.routerId === last && known.hostId === hostId);
    const now = new Date(this.#parts.now());
    const circuit: Circuit = {
      ...{ id, serviceId, clientId, hostId, route, tags },
      terminatorId: terminator?.id ?? "",
      // Without the tag it is not known which session it was made with; routers end what belongs to a session that is gone.
      grant: grantOfTag(tags.grant, clientId),
      addresses: NO_ADDRESSES,
      requestedAt: 0,
      createdAt: now,
      updatedAt: now,
      peerData: new Map(),
    };
    ownership.claimed(id);
    circuits.adopted(circuit);
    this.#hasAdopted = true;
    return circuit;
  }
}

/** Undefined unless the routers' answers fit together, and say whose the circuit is. */
function wholeCircuit(id: string, byRouter: ReadonlyMap<string, Reported>): Found | undefined {
  const route = wholeRoute(byRouter);
  const tags = route === undefined ? undefined : agreedTags(route, byRouter);
  const serviceTag = tags?.serviceId ?? "";
  const serviceId = serviceTag.slice(serviceTag.indexOf("@") + 1);
  const clientId = tags?.clientId ?? "";
  if (route === undefined || tags === undefined || serviceId === "" || clientId === "") return undefined;
  const filedUnder = byRouter.get(route.routers[0] ?? "")?.ctrlId ?? "";
  return { id, route, tags, serviceId, clientId, filedUnder };
}

/** The way from the initiating end to the terminating one, if what the routers say of it fits together. */
function wholeRoute(byRouter: ReadonlyMap<string, Reported>): CircuitRoute | undefined {
  const first = [...byRouter].find(([, { initiator }]) => initiator !== undefined);
  const ingressId = first?.[1].initiator;
  if (first === undefined || ingressId === undefined) return undefined;
  const routers: string[] = [];
  const links: string[] = [];
  let [routerId, circuit] = first;
  let source = ingressId;
  for (;;) {
    if (routers.includes(routerId)) return undefined;
    routers.push(routerId);
    const target = circuit.forwards.find(([from]) => from === source)?.[1];
    if (target === undefined) return undefined;
    if (target === circuit.terminator) return { routers, links, ingressId, egressId: target };
    const next = [...byRouter].find(
      ([id, { forwards }]) => id !== routerId && forwards.some(([from, to]) => from === target && to !== target),
    );
    if (next === undefined) return undefined;
    links.push(target);
    [routerId, circuit] = next;
    source = target;
  }
}

/**
 * What all routers of the way say alike about whose circuit it is; undefined when they do not: a router that only passes it
 * on must not make it another identity's.
 */
function agreedTags(route: CircuitRoute, byRouter: ReadonlyMap<string, Reported>): Reported["tags"] | undefined {
  const [first, ...others] = route.routers.map((routerId) => byRouter.get(routerId)?.tags);
  const isAgreed = others.every((tags) => WHOSE.every((name) => tags?.[name] === first?.[name]));
  return isAgreed ? first : undefined;
}

/** @throws whatever keeps the router from answering, and when it answers what is no such report */
async function ask(router: RouterConnection): Promise<readonly Reported[]> {
  const body = encodeControl(ctrlPb.InspectRequestSchema, { requestedValues: [InspectionKey.CircuitRoutes] });
  const request = { contentType: ControlType.InspectRequest, body };
  const answer = await router.channel.request(request, { timeoutMs: ASK_TIMEOUT_MS });
  const { values } = decodeControl(ctrlPb.InspectResponseSchema, answer.body, MAX_FIELDS_OF_REPORTS);
  const value = values.find(({ name }) => name === InspectionKey.CircuitRoutes)?.value;
  // A router that does not know this inspection keeps its circuits to itself.
  return value === undefined ? [] : report.parse(JSON.parse(value)).circuits;
}
