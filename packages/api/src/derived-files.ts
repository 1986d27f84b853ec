/** Files that `make generate` derives from the table: the reference page of the APIs, and the routes of the typed client. */

import type { Route } from "./client/types.ts";
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
    return `| ${method} | \`${path}\` | ${id} | ${RIGHTS[auth]} | ${names.join(", ")} | ${response.status} | ${summary} |`;
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
