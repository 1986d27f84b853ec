import { type ListQuery, NO_LIMIT, selectPage } from "@sallyport/api";
import type { NetworkView } from "../api/dependencies.ts";
import { CIRCUIT_FIELDS } from "../api/fabric/live.ts";
import type { CircuitState } from "../fabric/circuits/circuit.ts";
import type { Fabric } from "../fabric/fabric.ts";
import { askedBy, type InspectionRequest, type InspectionResult, joined } from "../fabric/inspection.ts";
import {
  CIRCUITS,
  type CircuitQuestion,
  circuitText,
  DISCONNECT,
  END_CIRCUIT,
  INSPECT,
  LINK_REMOVED,
} from "./fabric-calls.ts";
import type { ReplicaCalls } from "./replica-calls.ts";

/** The fabric of this process. */
export type OwnFabric = Pick<
  Fabric,
  | "circuits"
  | "circuit"
  | "removeCircuit"
  | "removeLink"
  | "forgetLink"
  | "disconnectRouter"
  | "inspect"
  | "inspectSelf"
>;

/** Circuits that were asked for, and whose: a replica that did not answer has others. */
export interface CircuitsOfRouter {
  readonly ids: ReadonlySet<string>;
  /** Ids of the replicas whose circuits are all there, this one among them. */
  readonly owners: ReadonlySet<string>;
}

/**
 * What connected processes alone know, and what only they can do, for the whole network: whichever replica is asked asks the others. A circuit belongs to the
 * replica that made it; routers and links are known to all of them. One that does not answer in time is left out. Source: docs/protocol/replicas.md, "Calls".
 */
export class WholeNetwork implements NetworkView {
  readonly #fabric: OwnFabric;
  readonly #calls: ReplicaCalls | undefined;

  /** @param calls undefined for a process that has no others */
  constructor(fabric: OwnFabric, calls?: ReplicaCalls) {
    this.#fabric = fabric;
    this.#calls = calls;
    calls?.serve(CIRCUITS, async (question) => {
      const { data, totalCount } = this.#own(question);
      return { value: totalCount, items: data.map(circuitText) };
    });
    calls?.serve(END_CIRCUIT, async ({ id, isImmediate }) => valueOnly(fabric.removeCircuit(id, isImmediate)));
    calls?.serve(LINK_REMOVED, async ({ id }) => {
      fabric.forgetLink(id);
      return valueOnly(true);
    });
    calls?.serve(DISCONNECT, async ({ id, reason }) => valueOnly(fabric.disconnectRouter(id, reason)));
    calls?.serve(INSPECT, async (request) => valueOnly(fabric.inspectSelf(request)));
  }

  async circuitPage(list: ListQuery): Promise<{ data: CircuitState[]; totalCount: number }> {
    const calls = this.#others;
    if (calls === undefined) return selectPage(this.#fabric.circuits(), CIRCUIT_FIELDS, list);
    // Of each replica what the page could hold if all of it were there.
    const limit = list.limit === NO_LIMIT ? NO_LIMIT : list.offset + list.limit;
    const question = { by: "page", list: { ...list, offset: 0, limit } } as const;
    const own = this.#own(question);
    const { answers } = await calls.askAll(CIRCUITS, question);
    const candidates = [...own.data, ...answers.flatMap(({ items }) => items)];
    const { data } = selectPage<CircuitState>(candidates, CIRCUIT_FIELDS, list);
    return { data, totalCount: answers.reduce((sum, { value }) => sum + value, own.totalCount) };
  }

  circuit(id: string): Promise<CircuitState | undefined> {
    return this.#one({ by: "id", id });
  }

  circuitOfSession(sessionId: string): Promise<CircuitState | undefined> {
    return this.#one({ by: "session", id: sessionId });
  }

  /** The circuits whose path includes a router. */
  async circuitsThrough(routerId: string, ownId: string): Promise<CircuitsOfRouter> {
    const question = { by: "router", id: routerId } as const;
    const { answers } = (await this.#others?.askAll(CIRCUITS, question)) ?? { answers: [] };
    const circuits = [this.#own(question).data, ...answers.map(({ items }) => items)].flat();
    return {
      ids: new Set(circuits.map(({ id }) => id)),
      owners: new Set([ownId, ...answers.map(({ replicaId }) => replicaId)]),
    };
  }

  async removeCircuit(id: string, isImmediate: boolean): Promise<boolean> {
    if (this.#fabric.removeCircuit(id, isImmediate)) return true;
    const asked = await this.#others?.askAll(END_CIRCUIT, { id, isImmediate });
    return asked?.answers.some(({ value }) => value) ?? false;
  }

  async removeLink(id: string): Promise<boolean> {
    const isKnown = this.#fabric.removeLink(id);
    // Each replica moves its own circuits to other links.
    await this.#others?.askAll(LINK_REMOVED, { id });
    return isKnown;
  }

  async disconnectRouter(id: string, reason: string): Promise<boolean> {
    const isConnected = this.#fabric.disconnectRouter(id, reason);
    const asked = await this.#others?.askAll(DISCONNECT, { id, reason });
    return isConnected || (asked?.answers.some(({ value }) => value) ?? false);
  }

  /** Routers are asked by this process alone, for they are connected to every one. */
  async inspect(request: InspectionRequest): Promise<InspectionResult> {
    const calls = this.#others;
    const isAsked = askedBy(request);
    if (calls === undefined || typeof isAsked === "string") return this.#fabric.inspect(request);
    const { appRegex, requestedValues } = request;
    const [own, { answers, silent }] = await Promise.all([
      this.#fabric.inspect(request),
      calls.askAll(INSPECT, { appRegex, requestedValues }),
    ]);
    const errors = silent.filter(isAsked).map((id) => `${id}: the controller did not answer`);
    return joined([own, ...answers.map(({ value }) => value), { success: errors.length === 0, errors, values: [] }]);
  }

  get #others(): ReplicaCalls | undefined {
    return this.#calls?.hasOthers === true ? this.#calls : undefined;
  }

  async #one(question: CircuitQuestion): Promise<CircuitState | undefined> {
    const [own] = this.#own(question).data;
    if (own !== undefined || this.#others === undefined) return own;
    const { answers } = await this.#others.askAll(CIRCUITS, question);
    return answers.flatMap(({ items }) => items)[0];
  }

  #own(question: CircuitQuestion): { data: readonly CircuitState[]; totalCount: number } {
    const fabric = this.#fabric;
    if (question.by === "page") return selectPage<CircuitState>(fabric.circuits(), CIRCUIT_FIELDS, question.list);
    const data = circuitsBy(fabric, question);
    return { data, totalCount: data.length };
  }
}

function circuitsBy(
  fabric: OwnFabric,
  { by, id }: { readonly by: "id" | "session" | "router"; readonly id: string },
): CircuitState[] {
  switch (by) {
    case "id": {
      const circuit = fabric.circuit(id);
      return circuit === undefined ? [] : [circuit];
    }
    case "session":
      return fabric.circuits().filter(({ grant }) => grant.kind === "session" && grant.sessionId === id);
    case "router":
      return fabric.circuits().filter(({ route }) => route.routers.includes(id));
  }
}

function valueOnly<A>(value: A): { readonly value: A; readonly items: readonly never[] } {
  return { value, items: [] };
}
