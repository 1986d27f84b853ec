import { type PrinterColumn, statusFields } from "../kind-definition.ts";
import { choice, list, mapOf, text } from "./bounded.ts";
import { type CelRule, immutable } from "./cel.ts";
import { entityId, nameRef } from "./references.ts";

/** Fields of every kind that stands for an entity of a network. */
export const entityFields = {
  networkRef: nameRef("The network that the entity is in.", "the Network", [immutable("networkRef")]),
  name: text("Unique name of the entity in the network. Default: metadata.name. Immutable.", {
    min: 1,
    max: 256,
  }).optional(),
  importId: entityId("Id of an existing entity to take over instead of creating one. It may be set once.").optional(),
  managementPolicy: choice(
    "Manage: create the entity, and refuse an entity of that name with another owner. Adopt: take over an entity of that name without an owner. Observe: never write, only report.",
    ["Manage", "Adopt", "Observe"],
  ).default("Manage"),
  deletionPolicy: choice("What happens to the entity when this resource is deleted.", ["Delete", "Orphan"]).default(
    "Delete",
  ),
  tags: mapOf(
    "Tags of the entity. Keys that begin with sallyport- are the operator's.",
    text("Value of the tag.", { max: 1024 }),
    {
      max: 64,
      rules: [
        {
          rule: "self.all(k, !k.startsWith('sallyport-'))",
          message: "tags that begin with sallyport- are reserved for the operator: choose another key",
        },
      ],
    },
  ).optional(),
};

/** On `spec` of every such kind. */
export const entityRules: readonly CelRule[] = [
  {
    rule: "!has(oldSelf.importId) || (has(self.importId) && self.importId == oldSelf.importId)",
    message: "importId may be set once: delete the resource with deletionPolicy Orphan and create it again",
    fieldPath: ".importId",
  },
];

/** On the whole object: the name in the network stays what it is, whether given or taken from `metadata.name`. */
export const nameRule: CelRule = {
  rule: "(has(self.spec.name) ? self.spec.name : self.metadata.name) == (has(oldSelf.spec.name) ? oldSelf.spec.name : oldSelf.metadata.name)",
  message: "the name in the network is immutable: delete the resource and create it again",
  fieldPath: ".spec.name",
};

/** Status of every kind that stands for one entity. */
export const entityStatusFields = {
  ...statusFields,
  id: text("Id of the entity in the network.", { max: 64 }).optional(),
};

export const idColumn: PrinterColumn = {
  name: "Id",
  type: "string",
  description: "Id of the entity in the network.",
  jsonPath: ".status.id",
  priority: 1,
};

/** Attributes by which policies select the entity. */
export const roleAttributes = (what: string) =>
  list(
    `Attributes by which policies select ${what}, written without "#".`,
    text("One attribute.", { min: 1, max: 256 }),
    {
      type: "set",
      max: 128,
      rules: [
        {
          rule: "self.all(a, !a.startsWith('#') && !a.startsWith('@'))",
          message: "an attribute is written without # or @: those mark selectors in policies",
        },
      ],
    },
  );
