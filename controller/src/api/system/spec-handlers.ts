import { type ApiName, notFound, openApiDocument, type sharedOperations } from "@sallyport/api";
import { stringify } from "yaml";
import type { ApiHandlers } from "../../http/context.ts";
import { links } from "../render/links.ts";

type SpecOperations = Pick<typeof sharedOperations, "listSpecs" | "detailSpec" | "detailSpecBody">;

/** Name of a description to the API that it describes. */
const SPECS: Readonly<Record<string, ApiName>> = { "edge-client": "client", "edge-management": "management" };

/** Descriptions are part of the program: their times are those of its start. */
export function specHandlers(startedAt: string): ApiHandlers<SpecOperations> {
  const record = (name: string) => ({
    _links: { ...links("specs", name) },
    id: name,
    name,
    createdAt: startedAt,
    updatedAt: startedAt,
    tags: {},
  });
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
      const known = documents.get(key);
      if (known !== undefined) return { body: known, contentType };
      const document = openApiDocument(apiOf(params.id));
      const body =
        contentType === "text/yaml" ? stringify(document, { aliasDuplicateObjects: false }) : JSON.stringify(document);
      documents.set(key, body);
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
