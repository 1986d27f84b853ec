import type { Page } from "../http/pages.ts";
import type { HealthChecks } from "./health-checks.ts";

/** Where health is looked at; anybody may. */
export function healthPages(checks: HealthChecks): Page[] {
  return ["/health-checks", "/health-checks/controller/raft"].map((path) => ({
    path,
    async handle({ query }) {
      const document = await checks.document({ isShort: query.type === "short", isRaft: path.endsWith("/raft") });
      return { status: 200, contentType: "application/json", body: JSON.stringify(document) };
    },
  }));
}
