/** The kinds of resources that a network has without a cluster. */
import {
  authPolicy,
  type EntityKind,
  type EntitySpec,
  edgeRouter,
  edgeRouterPolicy,
  type FoundEntity,
  identityEntity,
  overlayService,
  postureCheck,
  serviceConfig,
  serviceEdgeRouterPolicy,
  servicePolicy,
} from "@sallyport/resources";
import {
  authPolicies,
  type Collection,
  configs,
  edgeRouterPolicies,
  edgeRouters,
  identityCollection,
  postureChecks,
  serviceEdgeRouterPolicies,
  servicePolicies,
  services,
} from "@sallyport/resources/sync";

/** Of any kind; their types differ, what is done here does not. */
export type AnyEntity = EntityKind<EntitySpec, object, FoundEntity, object>;
export type AnyCollection = Collection<object, FoundEntity>;

export interface DeclaredKind {
  readonly kind: string;
  /** A kind refers only to kinds of earlier stages. */
  readonly stage: number;
  readonly entity: AnyEntity;
  readonly collection: AnyCollection;
  /** Of the command line's tables: `service-policy`. */
  readonly shownAs: string;
}

function declared(kind: string, stage: number, shownAs: string, entity: unknown, collection: unknown): DeclaredKind {
  return { kind, stage, shownAs, entity: entity as AnyEntity, collection: collection as AnyCollection };
}

/** In the order in which they are made. */
export const DECLARED_KINDS: readonly DeclaredKind[] = [
  declared("ServiceConfig", 0, "config", serviceConfig, configs),
  declared("AuthPolicy", 0, "auth-policy", authPolicy, authPolicies),
  declared("PostureCheck", 0, "posture-check", postureCheck, postureChecks),
  declared("OverlayService", 1, "service", overlayService, services),
  declared("EdgeRouter", 1, "edge-router", edgeRouter, edgeRouters),
  declared("Identity", 2, "identity", identityEntity, identityCollection(undefined)),
  declared("ServicePolicy", 3, "service-policy", servicePolicy, servicePolicies),
  declared("EdgeRouterPolicy", 3, "edge-router-policy", edgeRouterPolicy, edgeRouterPolicies),
  declared(
    "ServiceEdgeRouterPolicy",
    3,
    "service-edge-router-policy",
    serviceEdgeRouterPolicy,
    serviceEdgeRouterPolicies,
  ),
];

/** @throws Error for a kind that is not in the table */
export function declaredKind(name: string): DeclaredKind {
  const found = DECLARED_KINDS.find(({ kind }) => kind === name);
  if (found === undefined) throw new Error(`the table of declared kinds has no ${name}`);
  return found;
}
