import { InspectionKey } from "@sallyport/wire";
import type { DynamicCosts } from "../circuits/costs.ts";
import { linkCost } from "../links/link-table.ts";
import type { Mesh } from "../links/mesh.ts";
import type { FabricOptions } from "../options.ts";
import type { IdentityConnections } from "../routers/identity-connections.ts";
import type { TerminatorValidation } from "../terminators/terminator-validation.ts";
import type { Inspection } from "./inspection.ts";

/** What operators may ask this controller about its fabric (docs/protocol/control.md, "Inspect"). Nothing secret. */
export function registerControllerSources(
  inspection: Inspection,
  parts: {
    readonly mesh: Mesh;
    readonly costs: DynamicCosts;
    readonly identities: IdentityConnections;
    readonly validation: TerminatorValidation;
    readonly options: FabricOptions;
  },
): void {
  const { mesh, costs, identities, validation, options } = parts;
  inspection.register("stackdump", () => processSummary());
  inspection.register("config", () => ({ network: options }));
  inspection.register("connected-routers", () =>
    mesh.routers().map((router) => ({
      Id: router.id,
      Version: router.version.version,
      ConnectTime: router.connectedAt.toISOString(),
    })),
  );
  inspection.register(InspectionKey.Links, () => ({
    links: mesh.links.all().map((link) => ({
      id: link.id,
      source: link.source,
      dest: link.destination,
      protocol: link.protocol,
      dialAddress: link.dialAddress,
      iteration: link.iteration,
      state: link.state,
      down: link.isDown,
      cost: linkCost(link),
      connections: link.connectionState.connections,
    })),
  }));
  inspection.register("terminator-costs", () => ({ terminators: costs.all() }));
  inspection.register("router-messaging", () => ({ terminatorValidations: validation.pending() }));
  inspection.register(InspectionKey.IdentityConnections, () => ({
    routers: Object.fromEntries(mesh.routers().map(({ id }) => [id, [...identities.of(id)]])),
  }));
}

/** There are no threads to list: what keeps the process busy is its active resources. */
function processSummary(): string {
  const counts = Map.groupBy(process.getActiveResourcesInfo(), (resource) => resource);
  const { rss, heapUsed } = process.memoryUsage();
  return [
    `node ${process.version} pid ${process.pid} up ${Math.round(process.uptime())} s rss ${rss} heap ${heapUsed}`,
    ...[...counts].map(([name, found]) => `${name}: ${found.length}`),
  ].join("\n");
}
