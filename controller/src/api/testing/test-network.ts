import type { Circuit } from "../../fabric/circuits/circuit.ts";
import { PathFinder } from "../../fabric/circuits/path.ts";
import type { InspectionRequest, InspectionResult } from "../../fabric/inspection.ts";
import type { LinkState } from "../../fabric/links/link-table.ts";
import { type Choice, chooseTerminator } from "../../fabric/terminators/terminator-choice.ts";
import type { OwnFabric } from "../../replicas/whole-network.ts";
import type { FabricView } from "../dependencies.ts";

/** Links and circuits that a test puts there itself, and what was done to them. */
export class TestNetwork {
  readonly links = new Map<string, LinkState>();
  readonly circuits = new Map<string, Circuit>();
  /** Inspections in order, and the answer to the next one. */
  readonly inspections: InspectionRequest[] = [];
  inspected: InspectionResult = { success: true, errors: [], values: [] };
  /** Ids of routers whose channel was closed. */
  readonly disconnected: string[] = [];
  readonly ended: { id: string; isImmediate: boolean }[] = [];

  /** What a dial comes to, over these links between the routers that are online. */
  choose(online: readonly string[], ...[request, terminators]: Parameters<FabricView["chooseTerminator"]>): Choice {
    const routers = online.map((id) => ({ id, cost: 0, noTraversal: false }));
    const paths = new PathFinder(routers, this.links.values(), 1);
    return chooseTerminator(request, terminators, paths, (id) => online.includes(id), { of: () => 0 });
  }

  view(): Omit<
    FabricView & OwnFabric,
    | "routerState"
    | "someRouterBack"
    | "onlineRouterIds"
    | "dynamicCost"
    | "identityConnection"
    | "announceApiSession"
    | "chooseTerminator"
  > {
    return {
      links: () => [...this.links.values()],
      link: (id) => this.links.get(id),
      updateLink: async (id, change) => {
        const link = this.links.get(id);
        if (link === undefined) return undefined;
        const cost = link.cost - link.staticCost + (change.staticCost ?? link.staticCost);
        const updated = { ...link, ...change, cost };
        this.links.set(id, updated);
        return updated;
      },
      removeLink: (id) => this.links.delete(id),
      forgetLink: (id) => void this.links.delete(id),
      circuits: () => [...this.circuits.values()],
      circuit: (id) => this.circuits.get(id),
      removeCircuit: (id, isImmediate = true) => {
        this.ended.push({ id, isImmediate });
        return this.circuits.delete(id);
      },
      disconnectRouter: (id) => {
        this.disconnected.push(id);
        return true;
      },
      inspect: async (request) => {
        this.inspections.push(request);
        return this.inspected;
      },
      inspectSelf: (request) => {
        this.inspections.push(request);
        return this.inspected;
      },
    };
  }
}
