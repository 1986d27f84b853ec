import type { z } from "zod";
import { freeForm, struct, text } from "../../fields/bounded.ts";
import { exactlyOne, immutable } from "../../fields/cel.ts";
import { entityFields, entityRules, entityStatusFields, idColumn, nameRule } from "../../fields/entity.ts";
import { secretKeyRef } from "../../fields/references.ts";
import { serviceConfigKind } from "../../group.ts";
import { defineKind, type Resource } from "../../kind-definition.ts";

const spec = struct(
  "A config of services or routers, such as how a service is intercepted or hosted.",
  {
    ...entityFields,
    type: text("Name of the config type, such as intercept.v1, host.v1 or router.link.v1. Immutable.", {
      min: 1,
      max: 256,
      rules: [immutable("type")],
    }),
    data: freeForm("The config; the network validates it with the schema of its type.", { max: 256 }).optional(),
    dataFrom: struct("Source of the config if it contains secrets that must not be in Git.", {
      secretRef: secretKeyRef("Value of a Secret with the config as JSON or YAML."),
    }).optional(),
  },
  [...entityRules, exactlyOne("data", "dataFrom")],
);

const status = struct("What the operator found and did.", {
  ...entityStatusFields,
  configTypeId: text("Id of the config type in the network.", { max: 64 }).optional(),
});

export const serviceConfigDefinition = defineKind({
  ...serviceConfigKind,
  shortNames: ["ocfg"],
  description:
    "A config for services or routers of a network, such as which addresses clients intercept, or to which target hosts connect.",
  spec,
  status,
  rules: [nameRule],
  columns: [{ name: "Type", type: "string", description: "Config type.", jsonPath: ".spec.type" }, idColumn],
});

export type ServiceConfigSpec = z.output<typeof spec>;
type ServiceConfigStatus = z.output<typeof status>;
export type ServiceConfigResource = Resource<ServiceConfigSpec, ServiceConfigStatus>;
