import type { AuthPolicyFields, FoundAuthPolicy } from "../plan/entity/auth-policy.ts";
import type { EdgeRouterPolicyFields, FoundEdgeRouterPolicy } from "../plan/entity/edge-router-policy.ts";
import type { EntityBody, FoundEntity } from "../plan/entity/entity-plan.ts";
import type { FoundService, ServiceFields } from "../plan/entity/overlay-service.ts";
import type { Tags } from "../plan/entity/ownership.ts";
import type { FoundPostureCheck, PostureCheckFields } from "../plan/entity/posture-check.ts";
import type { ConfigFields, FoundConfig } from "../plan/entity/service-config.ts";
import type {
  FoundServiceEdgeRouterPolicy,
  ServiceEdgeRouterPolicyFields,
} from "../plan/entity/service-edge-router-policy.ts";
import type { FoundServicePolicy, ServicePolicyFields } from "../plan/entity/service-policy.ts";
import type { ManagementClient } from "./connection.ts";

export interface PageQuery {
  readonly limit: number;
  readonly offset: number;
  readonly filter?: string;
}

/** What a change is made from: only what differs, and everything. */
export interface EntityChange<Fields, Found> {
  readonly found: Found;
  readonly body: Partial<EntityBody<Fields>>;
  readonly whole: EntityBody<Fields>;
}

interface Call {
  readonly signal?: AbortSignal;
}

/**
 * The calls of one collection of the Management API. Entities are changed by replacement: servers of the family drop fields of a partial
 * change (checks of a policy, the signer of a process), refuse it (configs without data), and never take the last tag away by one.
 */
export interface Collection<Fields, Found extends FoundEntity> {
  list(
    client: ManagementClient,
    query: PageQuery,
    call: Call,
  ): Promise<{ data: readonly Found[]; meta: { pagination: { totalCount: number } } }>;
  detail(client: ManagementClient, id: string, call: Call): Promise<Found>;
  /** Gives the id. */
  create(client: ManagementClient, body: EntityBody<Fields>, call: Call): Promise<string>;
  change(client: ManagementClient, change: EntityChange<Fields, Found>, call: Call): Promise<unknown>;
  /** Replaces all tags and nothing else. */
  retag(client: ManagementClient, found: Found, tags: Tags, call: Call): Promise<unknown>;
  delete(client: ManagementClient, id: string, call: Call): Promise<unknown>;
}

/** The API's shapes are written by hand on both sides: lists that are read only here may be written there. */
type Writable<T> = T extends readonly (infer Item)[]
  ? Writable<Item>[]
  : T extends object
    ? { -readonly [Key in keyof T]: Writable<T[Key]> }
    : T;
const writable = <T>(value: T): Writable<T> => value as Writable<T>;

export const services: Collection<ServiceFields, FoundService> = {
  list: (client, query, call) => client.listServices({ query }, call),
  detail: async (client, id, call) => (await client.detailService({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createService({ body: writable(body) }, call)).data.id,
  // Some servers take another value here, though it is fixed when a service is made.
  change: (client, { found, whole }, call) => {
    const body = { ...whole, encryptionRequired: found.encryptionRequired ?? whole.encryptionRequired };
    return client.updateService({ params: { id: found.id }, body: writable(body) }, call);
  },
  retag(client, found, tags, call) {
    const fields = {
      encryptionRequired: found.encryptionRequired ?? true,
      roleAttributes: found.roleAttributes ?? [],
      configs: found.configs ?? [],
      terminatorStrategy: found.terminatorStrategy ?? "",
      maxIdleTimeMillis: found.maxIdleTimeMillis ?? 0,
    };
    const body = { ...fields, name: found.name, tags };
    return client.updateService({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteService({ params: { id } }, call),
};

export const configs: Collection<ConfigFields, FoundConfig> = {
  list: (client, query, call) => client.listConfigs({ query }, call),
  detail: async (client, id, call) => (await client.detailConfig({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createConfig({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateConfig({ params: { id }, body: writable(whole) }, call),
  retag(client, found, tags, call) {
    const fields = { data: found.data ?? {} };
    const body = { ...fields, name: found.name, tags };
    return client.updateConfig({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteConfig({ params: { id } }, call),
};

export const servicePolicies: Collection<ServicePolicyFields, FoundServicePolicy> = {
  list: (client, query, call) => client.listServicePolicies({ query }, call),
  detail: async (client, id, call) => (await client.detailServicePolicy({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createServicePolicy({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateServicePolicy({ params: { id }, body: writable(whole) }, call),
  retag(client, found, tags, call) {
    const fields = {
      type: found.type as "Dial",
      semantic: found.semantic as "AnyOf",
      identityRoles: found.identityRoles ?? [],
      serviceRoles: found.serviceRoles ?? [],
      postureCheckRoles: found.postureCheckRoles ?? [],
    };
    const body = { ...fields, name: found.name, tags };
    return client.updateServicePolicy({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteServicePolicy({ params: { id } }, call),
};

export const edgeRouterPolicies: Collection<EdgeRouterPolicyFields, FoundEdgeRouterPolicy> = {
  list: (client, query, call) => client.listEdgeRouterPolicies({ query }, call),
  detail: async (client, id, call) => (await client.detailEdgeRouterPolicy({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createEdgeRouterPolicy({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateEdgeRouterPolicy({ params: { id }, body: writable(whole) }, call),
  retag(client, found, tags, call) {
    const fields = {
      semantic: found.semantic as "AnyOf",
      edgeRouterRoles: found.edgeRouterRoles ?? [],
      identityRoles: found.identityRoles ?? [],
    };
    const body = { ...fields, name: found.name, tags };
    return client.updateEdgeRouterPolicy({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteEdgeRouterPolicy({ params: { id } }, call),
};

export const serviceEdgeRouterPolicies: Collection<ServiceEdgeRouterPolicyFields, FoundServiceEdgeRouterPolicy> = {
  list: (client, query, call) => client.listServiceEdgeRouterPolicies({ query }, call),
  detail: async (client, id, call) => (await client.detailServiceEdgeRouterPolicy({ params: { id } }, call)).data,
  create: async (client, body, call) =>
    (await client.createServiceEdgeRouterPolicy({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateServiceEdgeRouterPolicy({ params: { id }, body: writable(whole) }, call),
  retag(client, found, tags, call) {
    const fields = {
      semantic: found.semantic as "AnyOf",
      edgeRouterRoles: found.edgeRouterRoles ?? [],
      serviceRoles: found.serviceRoles ?? [],
    };
    const body = { ...fields, name: found.name, tags };
    return client.updateServiceEdgeRouterPolicy({ params: { id: found.id }, body: writable(body) }, call);
  },
  delete: (client, id, call) => client.deleteServiceEdgeRouterPolicy({ params: { id } }, call),
};

export const authPolicies: Collection<AuthPolicyFields, FoundAuthPolicy> = {
  list: (client, query, call) => client.listAuthPolicies({ query }, call),
  detail: async (client, id, call) => (await client.detailAuthPolicy({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createAuthPolicy({ body: writable(body) }, call)).data.id,
  change: (client, { found: { id }, whole }, call) =>
    client.updateAuthPolicy({ params: { id }, body: writable(whole) }, call),
  retag(client, { id, name, primary, secondary }, tags, call) {
    const { requireTotp, requireExtJwtSigner } = secondary;
    const signer = requireExtJwtSigner ? { requireExtJwtSigner } : {};
    const extJwt = { ...primary.extJwt, allowedSigners: primary.extJwt.allowedSigners ?? [] };
    const whole = { name, tags, primary: { ...primary, extJwt }, secondary: { requireTotp, ...signer } };
    return client.updateAuthPolicy({ params: { id }, body: writable(whole) }, call);
  },
  delete: (client, id, call) => client.deleteAuthPolicy({ params: { id } }, call),
};

/** The variant's fields are those of the check itself. */
export const postureChecks: Collection<PostureCheckFields, FoundPostureCheck> = {
  list: (client, query, call) => client.listPostureChecks({ query }, call),
  detail: async (client, id, call) => (await client.detailPostureCheck({ params: { id } }, call)).data,
  async create(client, { variant, ...rest }, call) {
    return (await client.createPostureCheck({ body: writable({ ...rest, ...variant }) }, call)).data.id;
  },
  change(client, { found: { id }, whole }, call) {
    const { variant, ...rest } = whole;
    return client.updatePostureCheck({ params: { id }, body: writable({ ...rest, ...variant }) }, call);
  },
  retag(client, found, tags, call) {
    const { _links, createdAt, updatedAt, version, id, ...rest } = found as FoundPostureCheck &
      Readonly<Record<string, unknown>>;
    const systems = found.operatingSystems?.map(({ type, versions }) => ({ type, versions: versions ?? [] }));
    const body = { ...rest, ...(systems && { operatingSystems: systems }), tags } as PostureReplacement;
    return client.updatePostureCheck({ params: { id }, body }, call);
  },
  delete: (client, id, call) => client.deletePostureCheck({ params: { id } }, call),
};

type PostureReplacement = Parameters<ManagementClient["updatePostureCheck"]>[0]["body"];
