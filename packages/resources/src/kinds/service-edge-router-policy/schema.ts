import type { z } from "zod";
import { struct } from "../../fields/bounded.ts";
import { entityFields, entityRules, entityStatusFields, idColumn, nameRule } from "../../fields/entity.ts";
import { allStandsAlone, selector, semantic } from "../../fields/references.ts";
import { serviceEdgeRouterPolicyKind } from "../../group.ts";
import { defineKind, type Resource } from "../../kind-definition.ts";

const spec = struct(
  "Which services may be reached through which edge routers.",
  {
    ...entityFields,
    semantic,
    ...selector("edgeRouter", "edge routers", "EdgeRouter"),
    ...selector("service", "services", "OverlayService"),
  },
  [...entityRules, allStandsAlone("edgeRouter"), allStandsAlone("service")],
);

const status = struct("What the operator found and did.", { ...entityStatusFields });

export const serviceEdgeRouterPolicyDefinition = defineKind({
  ...serviceEdgeRouterPolicyKind,
  shortNames: ["oserp"],
  description: "A service edge router policy of a network: which edge routers may carry services.",
  spec,
  status,
  rules: [nameRule],
  columns: [{ name: "Semantic", type: "string", description: "AnyOf or AllOf.", jsonPath: ".spec.semantic" }, idColumn],
});

export type ServiceEdgeRouterPolicySpec = z.output<typeof spec>;
type ServiceEdgeRouterPolicyStatus = z.output<typeof status>;
export type ServiceEdgeRouterPolicyResource = Resource<ServiceEdgeRouterPolicySpec, ServiceEdgeRouterPolicyStatus>;
