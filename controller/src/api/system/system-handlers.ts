/** The program about itself: its APIs, its version, and its database. */
import {
  type ApiName,
  apiError,
  apiTime,
  type databaseOperations,
  type fabricDatabaseOperations,
  notFound,
  type OperationTable,
  openApiDocument,
  type sharedOperations,
  unhandledCause,
} from "@sallyport/api";
import { stringify } from "yaml";
import type { ApiHandlers } from "../../http/context.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { links } from "../render/base.ts";

/** The API that a specification describes, by its name. */
const SPECS: Readonly<Record<string, ApiName>> = { "edge-client": "client", "edge-management": "management" };

/** Specifications are part of the program: their times are those of its start. `oidc` as for {@link openApiDocument}. */
export function specHandlers(
  startedAt: string,
  options: { readonly oidc: boolean },
): ApiHandlers<Pick<typeof sharedOperations, "listSpecs" | "detailSpec" | "detailSpecBody">> {
  const times = { createdAt: startedAt, updatedAt: startedAt };
  const record = (name: string) => ({ _links: { ...links("specs", name) }, id: name, name, ...times, tags: {} });
  const documents = new Map<string, string>();
  return {
    listSpecs: async () => ({ data: Object.keys(SPECS).map(record) }),
    detailSpec: async ({ params }) => {
      apiOf(params.id);
      return { data: record(params.id) };
    },
    detailSpecBody: async ({ params, request }) => {
      const contentType = wantsJson(request.headers.accept) ? "application/json" : "text/yaml";
      const key = `${params.id} ${contentType}`;
      let body = documents.get(key);
      if (body === undefined) {
        const document = openApiDocument(apiOf(params.id), options);
        body =
          contentType === "text/yaml"
            ? stringify(document, { aliasDuplicateObjects: false })
            : JSON.stringify(document);
        documents.set(key, body);
      }
      return { body, contentType };
    },
  };
}

function apiOf(name: string): ApiName {
  const api = Object.hasOwn(SPECS, name) ? SPECS[name] : undefined;
  if (api === undefined) throw notFound("spec", name);
  return api;
}

/** YAML unless JSON is named and YAML is not. */
function wantsJson(accept: string | undefined): boolean {
  return accept?.includes("json") === true && !accept.includes("yaml");
}

/** Integrity runs and snapshots, for both APIs that have them. */
export function databaseHandlers({ model }: ApiDependencies): {
  readonly management: ApiHandlers<typeof databaseOperations>;
  readonly fabric: ApiHandlers<typeof fabricDatabaseOperations>;
} {
  const { integrity, snapshots } = model;
  const shared = {
    checkDataIntegrity: async () => integrity.start({ fix: false }),
    fixDataIntegrity: async () => integrity.start({ fix: true }),
    dataIntegrityResults: async () => {
      const { startTime, endTime, results, ...report } = integrity.report();
      return {
        data: {
          ...report,
          startTime: startTime && apiTime(startTime),
          endTime: endTime && apiTime(endTime),
          results: [...results],
        },
        pagination: { limit: -1, offset: 0, totalCount: results.length },
      };
    },
    createDatabaseSnapshot: async () => {
      await snapshots.create();
    },
  };
  return {
    management: shared,
    fabric: {
      ...shared,
      createDatabaseSnapshotWithPath: async ({ body }) => ({ data: { path: await snapshots.create(body.path) } }),
    },
  };
}

/** The handlers of operations that are described and not served: 501, with the reason. */
export function unservedHandlers<T extends OperationTable>(table: T): ApiHandlers<T> {
  const handlers = Object.entries(table).map(([id, { unserved }]) => [
    id,
    async () => {
      throw apiError("NOT_IMPLEMENTED", unserved === undefined ? undefined : unhandledCause(unserved));
    },
  ]);
  return Object.fromEntries(handlers) as ApiHandlers<T>;
}
