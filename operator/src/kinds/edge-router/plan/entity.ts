import { type EntityKind, type EntityResource, type FoundEntity, sameJson, sameSet } from "../../../entity/plan.ts";
import { scopedAttributes } from "../../../entity/references.ts";
import type { EdgeRouterResource, EdgeRouterSpec } from "../schema.ts";

export interface EdgeRouterFields {
  readonly roleAttributes: readonly string[];
  readonly cost: number;
  readonly noTraversal: boolean;
  readonly disabled: boolean;
  readonly isTunnelerEnabled: boolean;
  readonly appData: Readonly<Record<string, unknown>>;
}

/** An edge router as the Management API shows it. */
export interface FoundEdgeRouter extends FoundEntity {
  readonly roleAttributes?: readonly string[] | null | undefined;
  readonly cost?: number | null | undefined;
  readonly noTraversal?: boolean | null | undefined;
  readonly disabled?: boolean | null | undefined;
  readonly isTunnelerEnabled?: boolean | undefined;
  readonly appData?: Readonly<Record<string, unknown>> | null | undefined;
  /** Told by the network; a replacement without it takes it away. */
  readonly ctrlChanListeners?: Readonly<Record<string, readonly string[]>> | undefined;
  /** Ids of the configs that an administrator gave it. */
  readonly configs?: readonly string[] | null | undefined;
  readonly isVerified?: boolean | undefined;
  readonly isOnline?: boolean | undefined;
  readonly syncStatus?: string | undefined;
  readonly certPem?: string | null | undefined;
  readonly versionInfo?: { readonly version: string } | undefined;
  /** Only while it is not verified. */
  readonly enrollmentJwt?: string | undefined;
  readonly enrollmentCreatedAt?: string | undefined;
  readonly enrollmentExpiresAt?: string | undefined;
}

export const edgeRouter: EntityKind<EdgeRouterSpec, EdgeRouterFields, FoundEdgeRouter> = {
  noun: "edge router",
  references: () => [],
  desired: (spec, { scope }) => ({
    fields: {
      roleAttributes: scopedAttributes(spec.roleAttributes, scope),
      cost: spec.cost,
      noTraversal: spec.noTraversal,
      disabled: spec.disabled,
      isTunnelerEnabled: spec.tunneler.enabled,
      appData: spec.appData ?? {},
    },
    missing: [],
  }),
  same: {
    roleAttributes: (wanted, found) => sameSet(wanted, found.roleAttributes),
    cost: (wanted, found) => wanted === (found.cost ?? 0),
    noTraversal: (wanted, found) => wanted === (found.noTraversal ?? false),
    disabled: (wanted, found) => wanted === (found.disabled ?? false),
    isTunnelerEnabled: (wanted, found) => wanted === (found.isTunnelerEnabled ?? false),
    appData: (wanted, found) => sameJson(wanted, found.appData ?? {}),
  },
};

/** The resource as it is for one of its routers: each is an entity with a name of its own. */
export function ofOrdinal(resource: EdgeRouterResource, ordinal: number): EntityResource<EdgeRouterSpec> {
  const { spec, metadata } = resource;
  const name = `${spec.name ?? metadata.name}-${ordinal}`;
  return { ...resource, spec: { ...spec, name, importId: ordinal === 0 ? spec.importId : undefined } };
}
