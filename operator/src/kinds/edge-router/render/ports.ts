import type { EdgeRouterSpec } from "../schema.ts";

/** Ports of the pods of an EdgeRouter. */

/** Port of the probes and of the metrics. */
export const healthPort = (spec: EdgeRouterSpec): number => (spec.edge.port === 8081 ? 8082 : 8081);

interface OfferedPort {
  readonly protocol: "TCP" | "UDP";
  readonly port: number;
}

/** Ports on which the tunneler offers services, in the order of their texts. */
export function offeredPorts({ tunneler }: EdgeRouterSpec): OfferedPort[] {
  const texts = tunneler.enabled && tunneler.mode === "proxy" ? (tunneler.proxyServices ?? []) : [];
  return texts.toSorted().map(offeredPort);
}

/** Of `<service>:<port>` or `<service>:<port>:udp`. */
export function offeredPort(text: string): OfferedPort {
  const [, port, protocol] = /:(\d{1,5})(?::(tcp|udp))?$/.exec(text) ?? [];
  return { protocol: protocol === "udp" ? "UDP" : "TCP", port: Number(port) };
}
