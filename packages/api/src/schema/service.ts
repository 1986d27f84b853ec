import { z } from "zod";
import { base, entityRef } from "./entity.ts";
import { postureQueries } from "./posture/types.ts";
import { cost, jsonObject, names, namesOrNull, patchOf, precedence, tags } from "./scalars.ts";

const fields = {
  name: z.string(),
  configs: names.default([]),
  maxIdleTimeMillis: z.int().default(0),
  roleAttributes: names.default([]),
  tags: tags.default({}),
  terminatorStrategy: z.string().default(""),
};
export const serviceCreate = z.object({ ...fields, encryptionRequired: z.boolean() });
/** `encryptionRequired` is fixed at creation: read, never applied. */
export const serviceUpdate = z.object({ ...fields, encryptionRequired: z.boolean().optional() });
export const servicePatch = patchOf({ ...fields, encryptionRequired: z.boolean() });

export const serviceDetail = z.strictObject({
  ...base,
  config: z.record(z.string(), jsonObject),
  configs: namesOrNull,
  encryptionRequired: z.boolean(),
  maxIdleTimeMillis: z.int(),
  name: z.string(),
  permissions: z.array(z.enum(["Bind", "Dial", "Invalid"])),
  postureQueries: z.array(postureQueries),
  roleAttributes: namesOrNull,
  terminatorStrategy: z.string(),
});

export const configCreate = z.object({
  name: z.string(),
  configTypeId: z.string(),
  data: jsonObject,
  tags: tags.default({}),
});
const configFields = { name: z.string(), data: jsonObject, tags: tags.default({}) };
export const configUpdate = z.object(configFields);
export const configPatch = patchOf(configFields);
export const configDetail = z.strictObject({
  ...base,
  configType: entityRef,
  configTypeId: z.string(),
  data: jsonObject,
  name: z.string(),
});

/** What configs of a type are for. */
const configTarget = z.enum(["service", "router", "other"]);
const configTypeFields = {
  name: z.string(),
  schema: jsonObject.optional(),
  tags: tags.default({}),
  /** Chosen at creation; later it may only be named. */
  target: configTarget.optional(),
};
export const configTypeCreate = z.object({ ...configTypeFields, target: configTarget.default("service") });
export const configTypeUpdate = z.object(configTypeFields);
export const configTypePatch = patchOf(configTypeFields);
export const configTypeDetail = z.strictObject({
  ...base,
  name: z.string(),
  schema: jsonObject.nullable(),
  target: configTarget,
});

/** What terminators of both APIs are made with. */
export const terminatorFields = {
  address: z.string(),
  binding: z.string(),
  router: z.string(),
  service: z.string(),
  cost: cost.default(0),
  precedence: precedence.default("default"),
  tags: tags.default({}),
};
export const terminatorCreate = z.object({
  ...terminatorFields,
  identity: z.string().default(""),
  /** Standard base64. */
  identitySecret: z.base64().optional(),
});
export const terminatorUpdate = z.object(terminatorFields);
export const terminatorPatch = patchOf(terminatorFields);
export const terminatorDetail = z.strictObject({
  ...base,
  address: z.string(),
  binding: z.string(),
  cost,
  dynamicCost: cost,
  identity: z.string(),
  precedence,
  router: entityRef,
  routerId: z.string(),
  service: entityRef,
  serviceId: z.string(),
});
export const terminatorClientDetail = z.strictObject({
  ...base,
  identity: z.string(),
  routerId: z.string(),
  service: entityRef,
  serviceId: z.string(),
});
