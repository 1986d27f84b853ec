/**
 * Conditional changes of entities: `ETag` on the answer with one entity, for a caller that prefers it, and `If-Match` on its change or deletion (docs/api.md,
 * "Conditional changes").
 */
import type { DetailResult, Operation, OperationTable } from "@sallyport/api";
import type { RequestInfo } from "../http/context.ts";
import type { ModelStore } from "../model/context.ts";
import type { EntityTable } from "../model/entity.ts";
import { changeVersion, entityVersion } from "../model/entity-version.ts";

/** The tables of the collections whose entities can be changed. */
const TABLES: Readonly<Record<string, EntityTable>> = {
  "auth-policies": "auth_policy",
  authenticators: "authenticator",
  cas: "ca",
  "config-types": "config_type",
  configs: "config",
  "edge-router-policies": "edge_router_policy",
  "edge-routers": "router",
  "external-jwt-signers": "ext_jwt_signer",
  identities: "identity",
  "posture-checks": "posture_check",
  routers: "router",
  "service-edge-router-policies": "service_edge_router_policy",
  "service-policies": "service_policy",
  services: "service",
  terminators: "terminator",
  "transit-routers": "router",
};

type AnyHandler = (call: {
  readonly params: { readonly id: string };
  readonly request: RequestInfo;
}) => Promise<unknown>;

/** The handlers, of which those of one entity know its version. */
export function withEntityVersions<Handlers extends object>(
  store: ModelStore,
  operations: OperationTable,
  handlers: Handlers,
): Handlers {
  const known = handlers as Readonly<Record<string, AnyHandler>>;
  const versioned = Object.entries<Operation>(operations).flatMap(([name, { method, path }]) => {
    const table = TABLES[/^\/([^/]+)\/\{id\}$/.exec(path)?.[1] ?? ""];
    const handler = known[name];
    if (table === undefined || handler === undefined) return [];
    return [[name, method === "GET" ? withVersion(store, table, handler) : ifMatching(table, handler)]];
  });
  return { ...handlers, ...Object.fromEntries(versioned) };
}

function withVersion(store: ModelStore, table: EntityTable, show: AnyHandler): AnyHandler {
  return async (call) => {
    // Few callers need it, and it takes a query.
    if (!isPreferred(call.request.headers.prefer)) return show(call);
    // Before the entity is read: if it changes in between, the version is too old, and a change with it is refused.
    const version = await entityVersion(store.db, table, call.params.id);
    const result = (await show(call)) as DetailResult<unknown>;
    return version === undefined ? result : { ...result, headers: { ...result.headers, etag: `"${version}"` } };
  };
}

function ifMatching(table: EntityTable, change: AnyHandler): AnyHandler {
  return async (call) => {
    const { id } = call.params;
    const versions = matchedVersions(call.request.headers["if-match"]);
    if (versions === undefined) return await change(call);
    return await changeVersion(table, id, versions, () => change(call));
  };
}

/** Does the header `Prefer` (RFC 7240) name `etag`? */
function isPreferred(header: string | undefined): boolean {
  return header?.split(",").some((preference) => preference.trim().toLowerCase() === "etag") === true;
}

/** Undefined: any version will do. Weak tags never match (RFC 9110, 13.1.1). */
function matchedVersions(header: string | undefined): readonly string[] | undefined {
  if (header === undefined || header.trim() === "*") return undefined;
  return [...header.matchAll(/(W\/)?"([^"]*)"/g)].flatMap(([, weak, tag = ""]) => (weak === undefined ? [tag] : []));
}
