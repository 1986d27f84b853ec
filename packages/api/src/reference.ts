/** The reference page of the APIs, generated from the table; `make generate` writes it. */
import { type Operation, pagingOf } from "./operation.ts";
import { type ApiName, BASE_PATHS, operations } from "./operations/apis.ts";

const RIGHTS = { public: "any client", partial: "any session", full: "full session", admin: "administrator" } as const;

const NAMES: Readonly<Record<ApiName, string>> = { client: "Client", management: "Management", fabric: "Fabric" };

/** The text of the page. */
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
