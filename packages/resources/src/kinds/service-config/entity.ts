import { type Collection, writable } from "../../entity/collection.ts";
import { type EntityKind, type FoundEntity, sameJson } from "../../entity/plan.ts";
import type { ServiceConfigSpec } from "./schema.ts";

interface ConfigFields {
  readonly configTypeId: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export interface FoundConfig extends FoundEntity {
  readonly configTypeId: string;
  readonly data?: Readonly<Record<string, unknown>> | null;
}

/** What a config needs besides its spec: both are looked up before. */
export interface ConfigSurroundings {
  /** Id of the config type that the spec names. */
  readonly configTypeId: string;
  /** The spec's `data`, or what the Secret has. */
  readonly data: Readonly<Record<string, unknown>>;
}

export const serviceConfig: EntityKind<ServiceConfigSpec, ConfigFields, FoundConfig, ConfigSurroundings> = {
  noun: "config",
  references: () => [],
  desired: (_spec, { configTypeId, data }) => ({ fields: { configTypeId, data }, missing: [] }),
  same: {
    configTypeId: (wanted, found) => wanted === found.configTypeId,
    data: (wanted, found) => sameJson(wanted, found.data ?? {}),
  },
  refusal: (found, { configTypeId }) =>
    found.configTypeId === configTypeId
      ? undefined
      : `is of the config type ${found.configTypeId} and can't become ${configTypeId}: give the resource another name in the network`,
};

export const configs: Collection<ConfigFields, FoundConfig> = {
  list: (client, query, call) => client.listConfigs({ query }, call),
  detail: (client, id, call) => client.detailConfig({ params: { id } }, call),
  create: async (client, body, call) => (await client.createConfig({ body: writable(body) }, call)).data.id,
  // The config type is fixed when a config is made: a replacement has no field for it.
  replace: (client, { id }, { name, tags, data }, call) =>
    client.updateConfig({ params: { id }, body: writable({ name, tags, data }) }, call),
  fieldsOf: ({ configTypeId, data }) => ({ configTypeId, data: data ?? {} }),
  delete: (client, id, call) => client.deleteConfig({ params: { id } }, call),
};
