import type { z } from "zod";
import { choice, flag, integer, list, struct } from "../../fields/bounded.ts";
import { immutable } from "../../fields/cel.ts";
import {
  entityFields,
  entityRules,
  entityStatusFields,
  idColumn,
  nameRule,
  roleAttributes,
} from "../../fields/entity.ts";
import { entityId, nameRef } from "../../fields/references.ts";
import { overlayServiceKind } from "../../group.ts";
import { defineKind, type Resource } from "../../kind-definition.ts";

const spec = struct(
  "What clients can dial.",
  {
    ...entityFields,
    encryptionRequired: flag("Whether clients and hosts encrypt end to end. Immutable.", {
      rules: [immutable("encryptionRequired")],
    }).default(true),
    roleAttributes: roleAttributes("the service").optional(),
    configRefs: list(
      "Configs of the service, by resource: how it is intercepted and hosted. One of each type.",
      nameRef("One config.", "the ServiceConfig"),
      { type: "map", keys: ["name"], max: 32 },
    ).optional(),
    configIds: list("Configs of the service, by id in the network.", entityId("One id."), {
      type: "set",
      max: 32,
    }).optional(),
    terminatorStrategy: choice("How the controller chooses among several hosts for a circuit.", [
      "smartrouting",
      "random",
      "weighted",
      "sticky",
    ]).default("smartrouting"),
    maxIdleTimeMillis: integer("Milliseconds without traffic after which a circuit is removed; 0: never.").optional(),
  },
  entityRules,
);

const status = struct("What the operator found and did.", {
  ...entityStatusFields,
  terminators: integer("Number of terminators of the service.").optional(),
  hosted: flag("Whether the service has a host. Without one no client can dial it.").optional(),
});

export const overlayServiceDefinition = defineKind({
  ...overlayServiceKind,
  shortNames: ["osvc"],
  description: "A service of a network, which identities dial and host as policies allow.",
  spec,
  status,
  rules: [nameRule],
  columns: [
    { name: "Hosted", type: "boolean", description: "Whether it has a host.", jsonPath: ".status.hosted" },
    {
      name: "Terminators",
      type: "integer",
      description: "Number of terminators.",
      jsonPath: ".status.terminators",
      priority: 1,
    },
    idColumn,
  ],
});

export type OverlayServiceSpec = z.output<typeof spec>;
type OverlayServiceStatus = z.output<typeof status>;
export type OverlayServiceResource = Resource<OverlayServiceSpec, OverlayServiceStatus>;
