import {
  idsOf,
  type MissingReference,
  named,
  type Reference,
  type ResolvedReferences,
} from "../../../entity/references.ts";
import type { IdentitySpec } from "../schema.ts";

/** A config that replaces a service's own one for an identity. */
interface ServiceConfigPair {
  readonly serviceId: string;
  readonly configId: string;
}

interface ServiceConfigPlan {
  readonly assign: readonly ServiceConfigPair[];
  readonly remove: readonly ServiceConfigPair[];
  readonly missing: readonly MissingReference[];
}

export const serviceConfigReferences = ({ serviceConfigs }: IdentitySpec): Reference[] =>
  (serviceConfigs ?? []).flatMap(({ serviceRef, configRef }) => [
    ...named("OverlayService", [serviceRef]),
    ...named("ServiceConfig", [configRef]),
  ]);

/** What to change so that an identity has the configs of the spec. While some are missing, none is taken away. */
export function planServiceConfigs(
  spec: IdentitySpec,
  references: ResolvedReferences,
  found: readonly ServiceConfigPair[],
): ServiceConfigPlan {
  const missing: MissingReference[] = [];
  const wanted: ServiceConfigPair[] = [];
  for (const { serviceRef, configRef } of spec.serviceConfigs ?? []) {
    const service = idsOf(named("OverlayService", [serviceRef]), references);
    const config = idsOf(named("ServiceConfig", [configRef]), references);
    missing.push(...service.missing, ...config.missing);
    const [serviceId] = service.ids;
    const [configId] = config.ids;
    if (serviceId !== undefined && configId !== undefined) wanted.push({ serviceId, configId });
  }
  const has = (pairs: readonly ServiceConfigPair[], pair: ServiceConfigPair): boolean =>
    pairs.some(({ serviceId, configId }) => serviceId === pair.serviceId && configId === pair.configId);
  return {
    assign: wanted.filter((pair) => !has(found, pair)),
    remove: missing.length > 0 ? [] : found.filter((pair) => !has(wanted, pair)),
    missing,
  };
}
