import type { z } from "zod";
import { choice, integer, struct } from "../../fields/bounded.ts";
import { entityFields, entityRules, entityStatusFields, idColumn, nameRule } from "../../fields/entity.ts";
import { allStandsAlone, refs, selector, semantic } from "../../fields/references.ts";
import { servicePolicyKind } from "../../group.ts";
import { defineKind, type Resource } from "../../kind-definition.ts";

const spec = struct(
  "Which identities may dial or host which services.",
  {
    ...entityFields,
    type: choice("Dial: the identities may use the services. Bind: they may host them.", ["Dial", "Bind"]),
    semantic,
    ...selector("identity", "identities", "Identity"),
    edgeRouterRefs: refs("the tunnelers of edge routers", "EdgeRouter").optional(),
    ...selector("service", "services", "OverlayService"),
    ...selector("postureCheck", "posture checks that an identity must pass", "PostureCheck"),
  },
  [
    ...entityRules,
    allStandsAlone("identity", "edgeRouterRefs"),
    allStandsAlone("service"),
    allStandsAlone("postureCheck"),
  ],
);

const count = (what: string) => integer(`Number of selected ${what}.`).optional();

const status = struct("What the operator found and did.", {
  ...entityStatusFields,
  matched: struct("Entities that the policy currently selects.", {
    identities: count("identities"),
    services: count("services"),
    postureChecks: count("posture checks"),
  }).optional(),
});

export const servicePolicyDefinition = defineKind({
  ...servicePolicyKind,
  shortNames: ["osp"],
  description: "A service policy of a network: it grants identities the use (Dial) or the hosting (Bind) of services.",
  spec,
  status,
  rules: [nameRule],
  columns: [
    { name: "Type", type: "string", description: "Dial or Bind.", jsonPath: ".spec.type" },
    { name: "Semantic", type: "string", description: "AnyOf or AllOf.", jsonPath: ".spec.semantic" },
    {
      name: "Identities",
      type: "integer",
      description: "Number of selected identities.",
      jsonPath: ".status.matched.identities",
      priority: 1,
    },
    {
      name: "Services",
      type: "integer",
      description: "Number of selected services.",
      jsonPath: ".status.matched.services",
      priority: 1,
    },
    idColumn,
  ],
});

export type ServicePolicySpec = z.output<typeof spec>;
type ServicePolicyStatus = z.output<typeof status>;
export type ServicePolicyResource = Resource<ServicePolicySpec, ServicePolicyStatus>;
