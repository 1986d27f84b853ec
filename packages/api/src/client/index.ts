/**
 * The typed client alone: the same as from `@sallyport/api`, without the schemas of the contract, which cost a program that only
 * calls the APIs some megabytes of memory and a tenth of a second (docs/api.md).
 */
export * from "../errors.ts";
export {
  type ApiClient,
  type ApiCredential,
  type ClientOptions,
  createClient,
  credentialHeaders,
  listAll,
  pathOf,
} from "./client.ts";
export type { Connect } from "./connect.ts";
export { ROUTES } from "./generated/routes.ts";
export {
  ApiTransportError,
  type HttpAnswer,
  HttpsCaller,
  type HttpsOptions,
  reportedError,
} from "./https.ts";
export type { AuthQuery, OidcLoginOptions, OidcTokens } from "./oidc/oidc-http.ts";
export {
  type AnnouncedOidc,
  type AnnouncingVersion,
  announcedOidc,
  type FactorAnswer,
  type FirstFactor,
  type LoginDetails,
  OidcLogin,
} from "./oidc/oidc-login.ts";
export { TokenRefresh, type TokenRefreshOptions } from "./oidc/token-refresh.ts";
export type {
  CallInput,
  CallOptions,
  CallResult,
  Calls,
  ManagementClient,
  PageParameters,
  RequestHeaders,
  Route,
  Routes,
} from "./types.ts";
