/**
 * The contract of the controller's HTTP APIs: one table of operations with their schemas, and what is derived from it.
 *
 * ```ts
 * const client = createClient("management", { baseUrl: "https://localhost:1280", ca });
 * const { data } = await client.authenticate({ query: { method: "password" }, body: { username, password } });
 * client.setToken(data.token);
 * const { data: services, meta } = await client.listServices({ query: { filter: 'name contains "web"' } });
 * ```
 *
 * The server half is `Handlers<T, Session, Request>`: one function per operation, checked by the compiler.
 */
export * from "./accept.ts";
export { type ApiClient, type ClientOptions, createClient } from "./client/client.ts";
export { ApiTransportError } from "./client/https.ts";
export type { CallInput, CallOptions, CallResult, Calls, PageParameters } from "./client/types.ts";
export * from "./errors.ts";
export * from "./filter/ast.ts";
export { type MemoryField, type MemoryFields, selectPage } from "./filter/in-memory.ts";
export { parseFilter, parseSort } from "./filter/parser.ts";
export * from "./handlers.ts";
export * from "./list-query.ts";
export { type OpenApiDocument, openApiDocument } from "./openapi.ts";
export * from "./operation.ts";
export * from "./operations/apis.ts";
export {
  authenticationOperations,
  certificateAuthorityOperations,
  revocationOperations,
} from "./operations/authentication.ts";
export { clientOperations } from "./operations/client.ts";
export { controllerSettingOperations, databaseOperations, fabricDatabaseOperations } from "./operations/database.ts";
export { enrollmentOperations, unservedEnrollment } from "./operations/enrollment.ts";
export { fabricOperations } from "./operations/fabric.ts";
export { identityOperations, tracingOperations } from "./operations/identities.ts";
export { mfaAdministration, mfaOperations } from "./operations/mfa.ts";
export { networkOperations, routerOperations } from "./operations/network.ts";
export { policyOperations } from "./operations/policies.ts";
export { postureOperations } from "./operations/posture.ts";
export { sharedOperations } from "./operations/shared.ts";
export * from "./schema/authentication.ts";
export * from "./schema/authenticator.ts";
export * from "./schema/database.ts";
export {
  createLocation,
  type EntityRef,
  entityRef,
  errorEnvelope,
  type Meta,
  meta,
  pagination,
} from "./schema/entity.ts";
export * from "./schema/fabric.ts";
export * from "./schema/identity.ts";
export * from "./schema/informational.ts";
export * from "./schema/policy.ts";
export * from "./schema/posture/types.ts";
export * from "./schema/router.ts";
export { apiTime, orNull, ZERO_TIME } from "./schema/scalars.ts";
export * from "./schema/service.ts";
export * from "./schema/session.ts";
export * from "./schema/why.ts";
