/**
 * The route that each router of a path needs to carry a circuit. Pure.
 *
 * Source: docs/protocol/fabric.md, "Circuits".
 */

import { DestinationType } from "@sallyport/wire";

/** Marks a Route that moves an existing circuit. */
export const REROUTE_ATTEMPT = 99_969_996;

export interface PlannedForward {
  readonly source: string;
  readonly destination: string;
  /** Where the forward leads: `Start` towards the initiating xgress, `End` towards the terminating one, `Link` over a link. */
  readonly toward: DestinationType;
}

export interface PlannedRoute {
  readonly routerId: string;
  readonly forwards: readonly PlannedForward[];
  /** This router opens (or, on a reroute, already has) the terminating xgress. */
  readonly isTerminating: boolean;
}

/** A circuit's way through the mesh. `links` has one entry less than `routers`. */
export interface CircuitRoute {
  readonly routers: readonly string[];
  readonly links: readonly string[];
  /** Xgress address of the initiating end, on the first router. */
  readonly ingressId: string;
  /** Xgress address of the terminating end, on the last router. */
  readonly egressId: string;
}

/** One entry per router in path order: each joins what is before it (ingress or a link) with what is behind it (a link or egress), both ways. */
export function planRoutes(route: CircuitRoute): PlannedRoute[] {
  const last = route.routers.length - 1;
  return route.routers.map((routerId, index) => {
    const before = route.links[index - 1];
    const behind = route.links[index];
    const source = before ?? route.ingressId;
    const destination = behind ?? route.egressId;
    return {
      routerId,
      forwards: [
        { source, destination, toward: behind === undefined ? DestinationType.End : DestinationType.Link },
        {
          source: destination,
          destination: source,
          toward: before === undefined ? DestinationType.Start : DestinationType.Link,
        },
      ],
      isTerminating: index === last,
    };
  });
}
