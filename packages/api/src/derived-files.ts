/** Files that `make generate` derives from the table: the reference pages of the APIs, and the routes of the typed client. */

import type { Route } from "./client/types.ts";
import { ADDITIONS, DIFFERENCES_21, operationKey, publishedOperations } from "./contract/published.ts";
import { type Operation, pagingOf } from "./operation.ts";
import { type ApiName, BASE_PATHS, operations } from "./operations/apis.ts";

const RIGHTS = { public: "any client", partial: "any session", full: "full session", admin: "administrator" } as const;

const NAMES: Readonly<Record<ApiName, string>> = { client: "Client", management: "Management", fabric: "Fabric" };

export function referencePage(): string {
  const parts = (Object.keys(operations) as ApiName[]).map(section);
  return [
    "# Operations of the Client, Management and Fabric APIs",
    "",
    "Generated from the table in `packages/api` by `make generate`; do not edit.",
    "How the APIs behave is in [api.md](../api.md); the schemas are in the OpenAPI 3.1 documents that `openApiDocument()` makes.",
    ...parts.flat(),
    "",
  ].join("\n");
}

function section(api: ApiName): string[] {
  const rows = Object.entries<Operation>(operations[api]).map(([id, operation]) => {
    const { method, path, auth, response, summary, query } = operation;
    const names = [
      ...(pagingOf(response) !== undefined ? ["*page*"] : []),
      ...Object.keys(query.shape).map((name) => `\`${name}\``),
    ];
    return `| ${method} | \`${path}\` | ${id} | ${RIGHTS[auth]} | ${names.join(", ")} | ${operation.unserved === undefined ? response.status : 501} | ${summary} |`;
  });
  return [
    "",
    `## ${NAMES[api]} API (\`${BASE_PATHS[api]}\`)`,
    "",
    "*page* stands for `limit`, `offset`, `filter` and `sort`.",
    "",
    "| Method | Path | Operation | Who | Query | Success | What |",
    "|---|---|---|---|---|---|---|",
    ...rows,
  ];
}

/** Every operation that OpenZiti 2.1 describes, and what becomes of a call. */
export function generation2Page(): string {
  const before = new Set(publishedOperations("0.26.14").map(operationKey));
  const described = publishedOperations("2.1");
  const parts = (Object.keys(operations) as ApiName[]).flatMap((api) => {
    const table = Object.values<Operation>(operations[api]);
    const rows = described.flatMap((each) => {
      const mine = table.find(({ method, path }) => method === each.method && path === each.path);
      if (each.api !== api || mine === undefined) return [];
      const key = operationKey(each);
      const added = ADDITIONS.find(({ operation }) => operation === key);
      const since = api === "fabric" ? "" : before.has(key) ? "0.26.14" : (added?.since ?? "0.35.0");
      const differences = DIFFERENCES_21.filter(({ operation }) => operation === key);
      const notes =
        mine.unserved === undefined ? differences.map(({ aspect, why }) => `${aspect}: ${why}`) : [mine.unserved];
      const served = mine.unserved === undefined ? "served" : "501";
      return [`| ${each.method} | \`${each.path}\` | ${since} | ${served} | ${notes.join("; ")} |`];
    });
    return [
      "",
      `## ${NAMES[api]} API`,
      "",
      "| Method | Path | In the description since | | Difference |",
      "|---|---|---|---|---|",
      ...rows,
    ];
  });
  return [
    "# The APIs of OpenZiti 2.1",
    "",
    "Generated from `packages/api/src/contract` by `make generate`; do not edit.",
    "Every operation of the descriptions of OpenZiti 2.1 (edge APIs 0.35.0, Fabric API 0.16.54): whether Sallyport serves it, and where it differs.",
    "An operation that is not served answers 501 `NOT_IMPLEMENTED` with the reason. A test holds this page's table against the operations.",
    "What the operations do is in [api-operations.md](api-operations.md).",
    ...parts,
    "",
  ].join("\n");
}

/** The file with what the typed client knows of each operation. */
export function clientRoutes(): string {
  const apis = (Object.keys(operations) as ApiName[]).map((api) => {
    const routes = Object.entries<Operation>(operations[api]).map(([id, of]) => [id, routeOf(of)] as const);
    const lines = routes.map(([id, route]) => `      ${id}: ${JSON.stringify(route)},\n`).join("");
    return `  ${api}: {\n    basePath: ${JSON.stringify(BASE_PATHS[api])},\n    routes: {\n${lines}    },\n  },\n`;
  });
  return `// Made from the operations of the contract: \`npm run generate\`.
import type { Routes } from "../types.ts";

/** Every operation of every API as the client calls it. */
export const ROUTES: Routes = {\n${apis.join("")}};\n`;
}

function routeOf({ method, path, auth, body, response }: Operation): Route {
  return {
    method,
    path,
    ...(auth === "public" ? { isPublic: true } : {}),
    ...(body.kind === "none" ? {} : { body: body.kind }),
    ...(body.kind === "text" && body.textTypes[0] !== undefined ? { textType: body.textTypes[0] } : {}),
    ...(response.kind === "bare" || response.kind === "raw" ? { answer: response.kind } : {}),
  };
}
