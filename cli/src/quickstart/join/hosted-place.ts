/** Where a service leads that this machine hosts: a policy of the network can open this machine and its surroundings. */
import type { Entity } from "../../entities/entity.ts";

/** The configs that say it, those of the tunneler in its order. */
export const HOST_CONFIGS = ["host.v2", "host.v1", "ziti-tunneler-server.v1"] as const;

/** `tcp:localhost:8080`, for each terminator of the first config; empty where no config says it. */
export function hostedPlaces(configs: Entity | undefined): readonly string[] {
  const type = HOST_CONFIGS.find((each) => isEntity(configs?.[each]));
  if (configs === undefined || type === undefined) return [];
  const config = configs[type] as Entity;
  const terminators = Array.isArray(config.terminators) ? config.terminators.filter(isEntity) : [];
  return (type === "host.v2" ? terminators : [config]).map(placeOf);
}

function placeOf(config: Entity): string {
  const protocol = config.forwardProtocol === true ? listOf(config.allowedProtocols) : (config.protocol ?? "tcp");
  const address =
    config.forwardAddress === true ? listOf(config.allowedAddresses) : (config.address ?? config.hostname ?? "?");
  const ranges = Array.isArray(config.allowedPortRanges) ? config.allowedPortRanges.filter(isEntity) : [];
  const port = config.forwardPort === true ? listOf(ranges.map(rangeText)) : (config.port ?? "?");
  return `${protocol}:${address}:${port}`;
}

function rangeText({ low, high }: Entity): string {
  return low === high ? String(low) : `${low}-${high}`;
}

function listOf(values: unknown): string {
  return Array.isArray(values) && values.length > 0 ? values.join(",") : "any";
}

function isEntity(value: unknown): value is Entity {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
