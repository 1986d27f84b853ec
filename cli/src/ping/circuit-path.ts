/** The path of a circuit, as the controller knows it. */
import { type Entity, titleOf, valueAt } from "../entities/entity.ts";
import { quoted } from "../entities/filter-text.ts";
import { listEntities } from "../entities/list.ts";
import { kindNamed } from "../kinds/find-kind.ts";
import type { ApiCaller } from "../network/api-caller.ts";
import type { LinkStatus, Named } from "../status/network-status.ts";
import { namedOf } from "../status/readings.ts";
import { linksOf } from "../status/shaping.ts";

export interface CircuitPath {
  /** Routers from the one that was dialled to the last one. */
  readonly routers: readonly Named[];
  readonly links: readonly LinkStatus[];
}

/** @throws CommandError, ApiError */
export async function circuitPath(circuitId: string, caller: ApiCaller): Promise<CircuitPath> {
  const { data } = await caller.json({ method: "GET", path: `/fabric/v1/circuits/${encodeURIComponent(circuitId)}` });
  const routers = ((valueAt(data, "path.nodes") ?? []) as readonly Entity[]).map(namedOf);
  const ids = ((valueAt(data, "path.links") ?? []) as readonly Entity[]).map((link) => link.id ?? titleOf(link));
  if (ids.length === 0) return { routers, links: [] };
  const filter = `id in [${ids.map((id) => quoted(String(id))).join(", ")}]`;
  const links = linksOf(await listEntities(kindNamed("link"), { filter }, caller));
  return { routers, links: links.toSorted((a, b) => ids.indexOf(a.id) - ids.indexOf(b.id)) };
}
