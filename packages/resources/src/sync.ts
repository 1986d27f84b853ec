/** Brings entities of a network into the state that resources declare, by calls of the Management API. */
export { type Collection, EntityReader, writable } from "./entity/collection.ts";
export { RequestBatch } from "./entity/request-batch.ts";
export { EntitySync, type KnownEntity, type ReaderOf, type RemovalResult, type SyncResult } from "./entity/sync.ts";
export { authPolicies } from "./kinds/auth-policy/entity.ts";
export { edgeRouters, routerBody } from "./kinds/edge-router/entity.ts";
export { edgeRouterPolicies } from "./kinds/edge-router-policy/entity.ts";
export { identityCollection } from "./kinds/identity/entity.ts";
export { services } from "./kinds/overlay-service/entity.ts";
export { postureChecks } from "./kinds/posture-check/entity.ts";
export { configs } from "./kinds/service-config/entity.ts";
export { serviceEdgeRouterPolicies } from "./kinds/service-edge-router-policy/entity.ts";
export { servicePolicies } from "./kinds/service-policy/entity.ts";
