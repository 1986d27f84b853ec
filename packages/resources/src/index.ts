/**
 * The resources by which networks are declared (docs/operator/resources.md): their names, and as pure functions what each of them wants of an entity. Loads no schema:
 * definitions are in `@sallyport/resources/definitions`, calls in `@sallyport/resources/sync`.
 */
export { amountOf } from "./amount.ts";
export {
  COMMAND_LINE,
  isOurs,
  OWNER_TAGS,
  type Owner,
  ownerFilter,
  ownerOf,
  ownershipOf,
  type Tags,
  tagsOf,
} from "./entity/ownership.ts";
export {
  type ConflictReason,
  type EntityBody,
  type EntityKind,
  type EntityPlan,
  type EntityResource,
  type EntitySpec,
  type FoundEntity,
  nameOf,
  networkRefOf,
  type Observed,
  planEntity,
  type Surroundings,
} from "./entity/plan.ts";
export {
  type MissingReference,
  missingReason,
  missingText,
  type Reference,
  type Referenced,
  type Resolution,
  type ResolvedReferences,
  resolveReferences,
} from "./entity/references.ts";
export * from "./group.ts";
export type { BaseStatus, Resource } from "./kind-definition.ts";
export { authPolicy, type FoundAuthPolicy } from "./kinds/auth-policy/entity.ts";
export type { AuthPolicyResource } from "./kinds/auth-policy/schema.ts";
export { type EdgeRouterFields, edgeRouter, type FoundEdgeRouter, ofOrdinal } from "./kinds/edge-router/entity.ts";
export type { EdgeRouterResource, EdgeRouterSpec, RouterStatus } from "./kinds/edge-router/schema.ts";
export { edgeRouterPolicy, type FoundEdgeRouterPolicy } from "./kinds/edge-router-policy/entity.ts";
export type { EdgeRouterPolicyResource } from "./kinds/edge-router-policy/schema.ts";
export {
  DISABLED,
  type DisablingPlan,
  type FoundIdentity,
  hasDisablingMark,
  type IdentityFields,
  identityEntity,
  planDisabling,
  planServiceConfigs,
  serviceConfigReferences,
  withDisablingMark,
} from "./kinds/identity/entity.ts";
export { type Invitation, invitationOf } from "./kinds/identity/invitation.ts";
export type { IdentityResource, IdentitySpec, IdentityStatus } from "./kinds/identity/schema.ts";
export type { ExternalNetwork, ManagedNetwork, NetworkResource, NetworkStatus } from "./kinds/network/schema.ts";
export { type FoundOverlayService, overlayService } from "./kinds/overlay-service/entity.ts";
export type { OverlayServiceResource } from "./kinds/overlay-service/schema.ts";
export { type FoundPostureCheck, postureCheck } from "./kinds/posture-check/entity.ts";
export type { PostureCheckResource } from "./kinds/posture-check/schema.ts";
export { type ConfigSurroundings, type FoundConfig, serviceConfig } from "./kinds/service-config/entity.ts";
export type { ServiceConfigResource } from "./kinds/service-config/schema.ts";
export {
  type FoundServiceEdgeRouterPolicy,
  serviceEdgeRouterPolicy,
} from "./kinds/service-edge-router-policy/entity.ts";
export type { ServiceEdgeRouterPolicyResource } from "./kinds/service-edge-router-policy/schema.ts";
export { type FoundServicePolicy, servicePolicy } from "./kinds/service-policy/entity.ts";
export type { ServicePolicyResource } from "./kinds/service-policy/schema.ts";
