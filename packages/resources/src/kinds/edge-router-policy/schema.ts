import type { z } from "zod";
import { struct } from "../../fields/bounded.ts";
import { entityFields, entityRules, entityStatusFields, idColumn, nameRule } from "../../fields/entity.ts";
import { allStandsAlone, selector, semantic } from "../../fields/references.ts";
import { edgeRouterPolicyKind } from "../../group.ts";
import { defineKind, type Resource } from "../../kind-definition.ts";

const spec = struct(
  "Which identities may use which edge routers.",
  {
    ...entityFields,
    semantic,
    ...selector("edgeRouter", "edge routers", "EdgeRouter"),
    ...selector("identity", "identities", "Identity"),
  },
  [...entityRules, allStandsAlone("edgeRouter"), allStandsAlone("identity")],
);

const status = struct("What the operator found and did.", { ...entityStatusFields });

export const edgeRouterPolicyDefinition = defineKind({
  ...edgeRouterPolicyKind,
  shortNames: ["oerp"],
  description: "An edge router policy of a network: which edge routers identities may connect to.",
  spec,
  status,
  rules: [nameRule],
  columns: [{ name: "Semantic", type: "string", description: "AnyOf or AllOf.", jsonPath: ".spec.semantic" }, idColumn],
});

export type EdgeRouterPolicySpec = z.output<typeof spec>;
type EdgeRouterPolicyStatus = z.output<typeof status>;
export type EdgeRouterPolicyResource = Resource<EdgeRouterPolicySpec, EdgeRouterPolicyStatus>;
