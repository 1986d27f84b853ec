import { type EntityKind, type FoundEntity, sameJson } from "../../entity/plan.ts";
import type { ServiceConfigSpec } from "./schema.ts";

export interface ConfigFields {
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
