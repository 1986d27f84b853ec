/**
 * The typed client alone: the same as from `@sallyport/api`, without the schemas of the contract, which cost a program that only
 * calls the APIs some megabytes of memory and a tenth of a second (docs/api.md).
 */
export * from "../errors.ts";
export {
  type ApiClient,
  ApiTransportError,
  type ClientOptions,
  type Connect,
  createClient,
  listAll,
} from "./client.ts";
export { ROUTES } from "./generated/routes.ts";
export type { CallInput, CallOptions, CallResult, Calls, PageParameters, Route, Routes } from "./types.ts";
