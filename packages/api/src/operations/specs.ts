/** The descriptions of the APIs, as the controller serves them. */
import { detail, raw, wholeList } from "../operation.ts";
import { specDetail } from "../schema/informational.ts";

export const specOperations = {
  listSpecs: wholeList("/specs", "public", specDetail, "Descriptions of the APIs that this controller serves", {
    errors: [],
  }),
  detailSpec: detail("/specs/{id}", "public", specDetail, "One description: `edge-client`, `edge-management`, …", {
    errors: [404],
  }),
  detailSpecBody: raw(
    "/specs/{id}/spec",
    "public",
    ["text/yaml", "application/json"],
    "The OpenAPI document itself, YAML or JSON by Accept",
  ),
};
