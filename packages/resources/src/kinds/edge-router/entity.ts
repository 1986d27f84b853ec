import { type Collection, writable } from "../../entity/collection.ts";
import { type EntityKind, type EntityResource, type FoundEntity, sameJson, sameSet } from "../../entity/plan.ts";
import { configReferences, configsOf, scopedAttributes } from "../../entity/references.ts";
import type { EdgeRouterResource, EdgeRouterSpec } from "./schema.ts";

export interface EdgeRouterFields {
  readonly roleAttributes: readonly string[];
  readonly cost: number;
  readonly noTraversal: boolean;
  readonly disabled: boolean;
  readonly isTunnelerEnabled: boolean;
  readonly appData: Readonly<Record<string, unknown>>;
  /** Ids. */
  readonly configs: readonly string[];
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
  /** Ids; null for none. Networks before OpenZiti 2.1 have no such field. */
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
  references: configReferences,
  idFields: ["configIds"],
  desired(spec, { scope, references }) {
    const { configs, missing } = configsOf(spec, references);
    return {
      fields: {
        roleAttributes: scopedAttributes(spec.roleAttributes, scope),
        cost: spec.cost,
        noTraversal: spec.noTraversal,
        disabled: spec.disabled,
        isTunnelerEnabled: spec.tunneler.enabled,
        appData: spec.appData ?? {},
        configs,
      },
      missing,
      // A router goes on with the configs that it has until the ones of the spec are all there.
      whileMissing: (found) => ({ configs: found.configs ?? [] }),
    };
  },
  same: {
    roleAttributes: (wanted, found) => sameSet(wanted, found.roleAttributes),
    cost: (wanted, found) => wanted === (found.cost ?? 0),
    noTraversal: (wanted, found) => wanted === (found.noTraversal ?? false),
    disabled: (wanted, found) => wanted === (found.disabled ?? false),
    isTunnelerEnabled: (wanted, found) => wanted === (found.isTunnelerEnabled ?? false),
    appData: (wanted, found) => sameJson(wanted, found.appData ?? {}),
    configs: (wanted, found) => sameSet(wanted, found.configs),
  },
  refusal: (found, { configs }) =>
    configs.length === 0 || found.configs !== undefined
      ? undefined
      : "can't have configs: the network knows none of routers, as those before OpenZiti 2.1; leave spec.configRefs and spec.configIds out",
};

/** The resource as it is for one of its routers: each is an entity with a name of its own. */
export function ofOrdinal(resource: EdgeRouterResource, ordinal: number): EntityResource<EdgeRouterSpec> {
  const { spec, metadata } = resource;
  const name = `${spec.name ?? metadata.name}-${ordinal}`;
  return { ...resource, spec: { ...spec, name, importId: ordinal === 0 ? spec.importId : undefined } };
}

/**
 * The fields of a router as they are sent. Networks before OpenZiti 2.1 know no configs of routers: they get none.
 *
 * @param found the router that is replaced; it has what no resource declares and a replacement would take away
 */
export function routerBody<Body extends EdgeRouterFields>({ configs, ...body }: Body, found?: FoundEdgeRouter) {
  const { ctrlChanListeners } = found ?? {};
  return {
    ...body,
    ...(ctrlChanListeners === undefined ? {} : { ctrlChanListeners }),
    ...(configs.length === 0 && found?.configs === undefined ? {} : { configs }),
  };
}

export const edgeRouters: Collection<EdgeRouterFields, FoundEdgeRouter> = {
  list: (client, query, call) => client.listEdgeRouters({ query }, call),
  detail: (client, id, call) => client.detailEdgeRouter({ params: { id } }, call),
  create: async (client, body, call) =>
    (await client.createEdgeRouter({ body: writable(routerBody(body)) }, call)).data.id,
  replace: (client, found, body, call) =>
    client.updateEdgeRouter({ params: { id: found.id }, body: writable(routerBody(body, found)) }, call),
  fieldsOf: (found) => ({
    roleAttributes: found.roleAttributes ?? [],
    cost: found.cost ?? 0,
    noTraversal: found.noTraversal ?? false,
    disabled: found.disabled ?? false,
    isTunnelerEnabled: found.isTunnelerEnabled ?? false,
    appData: found.appData ?? {},
    configs: found.configs ?? [],
  }),
  delete: (client, id, call) => client.deleteEdgeRouter({ params: { id } }, call),
};
