/** What the Fabric API shows of routers, links, circuits, services and terminators, for the people who run the network. */
import { z } from "zod";
import { base, entityRef } from "./entity.ts";
import { interfaces, versionInfo } from "./router.ts";
import { cost, names, patchOf, precedence, tags } from "./scalars.ts";
import { terminatorFields } from "./service.ts";

const serviceFields = {
  name: z.string(),
  maxIdleTimeMillis: z.int().default(0),
  tags: tags.default({}),
  terminatorStrategy: z.string().default(""),
};
export const fabricServiceCreate = z.object(serviceFields);
export const fabricServiceUpdate = z.object(serviceFields);
export const fabricServicePatch = patchOf(serviceFields);
export const fabricServiceDetail = z.strictObject({
  ...base,
  maxIdleTimeMillis: z.int(),
  name: z.string(),
  terminatorStrategy: z.string(),
});

/** SHA-1 of a certificate as hex digits. */
const fingerprint = z.string().regex(/^[0-9A-Fa-f]{40}$/);
const routerFields = {
  name: z.string(),
  cost: cost.default(0),
  disabled: z.boolean().default(false),
  noTraversal: z.boolean().default(false),
  tags: tags.default({}),
};
/** A router whose certificate exists already: its common name is the id. */
export const fabricRouterCreate = z.object({ ...routerFields, id: z.string(), fingerprint });
export const fabricRouterUpdate = z.object({ ...routerFields, fingerprint: fingerprint.optional() });
export const fabricRouterPatch = patchOf({ ...routerFields, fingerprint });
export const fabricRouterDetail = z.strictObject({
  ...base,
  connected: z.boolean(),
  cost,
  disabled: z.boolean(),
  fingerprint: z.string().nullable(),
  interfaces: interfaces.optional(),
  /** Where other routers dial it; absent while it is not connected. */
  listenerAddresses: z.array(z.strictObject({ address: z.string(), protocol: z.string() })).optional(),
  name: z.string(),
  noTraversal: z.boolean(),
  versionInfo: versionInfo.optional(),
});

export const fabricTerminatorCreate = z.object({
  ...terminatorFields,
  hostId: z.string().default(""),
  instanceId: z.string().default(""),
  /** Standard base64. */
  instanceSecret: z.base64().optional(),
});
export const fabricTerminatorUpdate = z.object({ ...terminatorFields, hostId: z.string().optional() });
export const fabricTerminatorPatch = patchOf({ ...terminatorFields, hostId: z.string() });
export const fabricTerminatorDetail = z.strictObject({
  ...base,
  address: z.string(),
  binding: z.string(),
  cost,
  dynamicCost: cost,
  hostId: z.string(),
  instanceId: z.string(),
  precedence,
  router: entityRef,
  routerId: z.string(),
  service: entityRef,
  serviceId: z.string(),
});

/** A link between two routers; latencies are nanoseconds. */
export const linkDetail = z.strictObject({
  cost: z.int(),
  destLatency: z.int(),
  destRouter: entityRef,
  down: z.boolean(),
  id: z.string(),
  iteration: z.int(),
  protocol: z.string(),
  sourceLatency: z.int(),
  sourceRouter: entityRef,
  state: z.string(),
  staticCost: z.int(),
});
export const linkPatch = patchOf({ down: z.boolean(), staticCost: z.int().min(0).max(2_147_483_647) });

/** A circuit; `nodes` are routers in the order of its path, `links` lie between them. */
export const circuitDetail = z.strictObject({
  ...base,
  clientId: z.string(),
  path: z.strictObject({ links: z.array(entityRef), nodes: z.array(entityRef) }),
  service: entityRef,
  terminator: entityRef,
});
export const circuitDelete = z.object({
  /** Routers drop the circuit at once, with what is still on its way. */
  immediate: z.boolean().default(false),
});

export const inspectRequest = z.object({
  /** Which controllers and routers to ask: an expression that is found in their ids. */
  appRegex: z.string(),
  requestedValues: names,
});
export const inspectResponse = z.strictObject({
  errors: names.nullable(),
  success: z.boolean(),
  values: z.array(z.strictObject({ appId: z.string(), name: z.string(), value: z.unknown() })).nullable(),
});

export const clusterMember = z.strictObject({
  address: z.string(),
  connected: z.boolean(),
  id: z.string(),
  leader: z.boolean(),
  version: z.string(),
  voter: z.boolean(),
});
export const clusterMemberAdd = z.object({ address: z.string(), isVoter: z.boolean() });
export const clusterMemberRemove = z.object({ id: z.string() });
export const clusterTransferLeadership = z.object({ newLeaderId: z.string().default("") });
