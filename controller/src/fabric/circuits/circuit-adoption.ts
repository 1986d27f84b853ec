import { ControlType, ctrlPb, decodeControl, encodeControl, InspectionKey, type Logger } from "@sallyport/wire";
import { z } from "zod";
import type { FabricModel } from "../ports.ts";
import { MAX_FIELDS_OF_REPORTS } from "../routers/inbound.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import type { Circuit, CircuitRoute } from "./circuit.ts";
import type { CircuitAccess } from "./circuit-access.ts";
import type { CircuitRegistry } from "./circuit-registry.ts";
import type { RouteExchange } from "./route-exchange.ts";

const ASK_TIMEOUT_MS = 30_000;
/** How long the other routers of a circuit's path may take to connect. */
const PATIENCE_MS = 120_000;
const WHOSE = ["serviceId", "clientId", "hostId"] as const;
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
  readonly access: Pick<CircuitAccess, "changed">;
  readonly exchange: Pick<RouteExchange, "unroute">;
  /** Is a circuit of this id being made? */
  readonly isMaking: (circuitId: string) => boolean;
  readonly log: Logger;
}

/**
 * Takes over the circuits of the process before this one: every router is asked once, when it first connects, which it carries.
 * A circuit is taken when the routers' answers fit together from its one end to the other; then it can be moved and ended as any other.
 *
 * Source: docs/protocol/fabric.md, "Restart".
 */
export class CircuitAdoption {
  readonly #parts: CircuitAdoptionParts;
  /** Routers that were asked, or are being asked. A second answer could bring back what ended in between. */
  readonly #asked = new Set<string>();
  readonly #asking = new Set<string>();
  readonly #awaited = new Map<string, Awaited>();
  #hasAdopted = false;

  constructor(parts: CircuitAdoptionParts) {
    this.#parts = parts;
  }

  /** Never rejects. `isNewProcess`: what the router said before is over. */
  async connected(router: RouterConnection, isNewProcess: boolean): Promise<void> {
    if (isNewProcess) this.#forget(router.id);
    if (this.#asked.has(router.id)) return;
    this.#asked.add(router.id);
    this.#asking.add(router.id);
    try {
      await this.#take(router.id, await ask(router));
    } catch (err) {
      this.#asked.delete(router.id);
      this.#parts.log.debug({ routerId: router.id, err }, "a router did not tell which circuits it carries");
    } finally {
      this.#asking.delete(router.id);
    }
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

  #forget(routerId: string): void {
    for (const [id, { byRouter, since }] of this.#awaited) {
      byRouter.delete(routerId);
      // Reports that no other router has confirmed are not kept either, however often a router comes back with other ids.
      if (byRouter.size === 0 || performance.now() - since >= PATIENCE_MS) this.#awaited.delete(id);
    }
  }

  async #take(routerId: string, reported: readonly Reported[]): Promise<void> {
    const { circuits, isMaking, controllerId, access, log } = this.#parts;
    let adopted = 0;
    for (const circuit of reported) {
      if (circuit.ctrlId !== controllerId || circuits.get(circuit.id) !== undefined || isMaking(circuit.id)) continue;
      const awaited = this.#awaited.getOrInsertComputed(circuit.id, () => ({
        byRouter: new Map(),
        since: performance.now(),
      }));
      awaited.byRouter.set(routerId, circuit);
      if (await this.#adopt(circuit.id, awaited)) adopted++;
    }
    if (adopted === 0) return;
    log.info({ routerId, circuits: adopted }, "circuits from before the start of this controller are known again");
    // An identity that may not use them any more loses them now.
    access.changed();
  }

  async #adopt(id: string, { byRouter }: Awaited): Promise<boolean> {
    const route = wholeRoute(byRouter);
    const tags = route === undefined ? undefined : agreedTags(route, byRouter);
    const serviceTag = tags?.serviceId ?? "";
    const serviceId = serviceTag.slice(serviceTag.indexOf("@") + 1);
    const clientId = tags?.clientId ?? "";
    if (route === undefined || tags === undefined || serviceId === "" || clientId === "") return false;
    const hostId = tags.hostId ?? "";
    const terminators = await this.#parts.model.terminatorsOfService(serviceId);
    // It may have ended while the store was asked.
    if (!this.#awaited.delete(id)) return false;
    const last = route.routers.at(-1);
    const terminator = terminators.find((known) => known.routerId === last && known.hostId === hostId);
    const now = new Date();
    const circuit: Circuit = {
      ...{ id, serviceId, clientId, hostId, route, tags },
      terminatorId: terminator?.id ?? "",
      // Which session it was made with is not known; routers end what belongs to a session that is gone.
      grant: { kind: "identity" },
      addresses: NO_ADDRESSES,
      requestedAt: 0,
      createdAt: now,
      updatedAt: now,
      peerData: new Map(),
    };
    this.#parts.circuits.adopted(circuit);
    this.#hasAdopted = true;
    return true;
  }
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
