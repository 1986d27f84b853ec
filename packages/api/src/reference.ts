/** The reference page of both APIs, generated from the table. `node packages/api/src/reference.ts` writes it. */
import { readFile, writeFile } from "node:fs/promises";
import type { Operation } from "./operation.ts";
import { type ApiName, BASE_PATHS, operations } from "./operations/apis.ts";

/** Where the page lies. */
export const REFERENCE_PAGE = new URL("../../../docs/reference/api-operations.md", import.meta.url);

const RIGHTS = { public: "anybody", partial: "any session", full: "full session", admin: "administrator" } as const;

/** The text of the page. */
export function referencePage(): string {
  const parts = (Object.keys(operations) as ApiName[]).map(section);
  return [
    "# Operations of the Client and Management APIs",
    "",
    "Generated from the table in `packages/api` by `node packages/api/src/reference.ts`; do not edit.",
    "How the APIs behave is in [api.md](../api.md); the schemas are in the OpenAPI 3.1 documents that `openApiDocument()` makes.",
    ...parts.flat(),
    "",
  ].join("\n");
}

function section(api: ApiName): string[] {
  const rows = Object.entries<Operation>(operations[api]).map(([id, operation]) => {
    const { method, path, auth, response, summary, query } = operation;
    const isPaged = response.kind === "list" && response.paged;
    const names = [...(isPaged ? ["*page*"] : []), ...Object.keys(query.shape).map((name) => `\`${name}\``)];
    return `| ${method} | \`${path}\` | ${id} | ${RIGHTS[auth]} | ${names.join(", ")} | ${response.status} | ${summary} |`;
  });
  return [
    "",
    `## ${api === "client" ? "Client" : "Management"} API (\`${BASE_PATHS[api]}\`)`,
    "",
    "*page* stands for `limit`, `offset`, `filter` and `sort`.",
    "",
    "| Method | Path | Operation | Who | Query | Success | What |",
    "|---|---|---|---|---|---|---|",
    ...rows,
  ];
}

if (import.meta.main) {
  const isCheck = process.argv.includes("--check");
  const current = await readFile(REFERENCE_PAGE, "utf8").catch(() => "");
  if (current !== referencePage()) {
    if (isCheck) {
      console.error("docs/reference/api-operations.md is out of date: run node packages/api/src/reference.ts");
      process.exitCode = 1;
    } else {
      await writeFile(REFERENCE_PAGE, referencePage());
    }
  }
}
