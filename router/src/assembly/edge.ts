import { edgeOptions } from "../config/forwarding.ts";
import type { Control } from "../control/control.ts";
import { type Edge, type EdgePort, startEdge } from "../edge/edge-listener.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import type { Assembly } from "./context.ts";
import { edgeListeners } from "./listeners.ts";

/** The edge listeners, opened; none without one in the file. */
export async function edge(
  { config, identity, ports, log, stops }: Assembly,
  o: { control: Control; forwarder: Forwarder },
): Promise<Edge | undefined> {
  const edgePorts: EdgePort[] = [];
  for (const listener of edgeListeners(config))
    edgePorts.push({ port: await ports.at(listener.address), options: edgeOptions(listener) });
  if (edgePorts.length === 0) return undefined;
  const edge = startEdge({ ports: edgePorts, ...o, anchors: () => identity.current.anchors, log });
  stops.push(() => edge.close());
  return edge;
}
