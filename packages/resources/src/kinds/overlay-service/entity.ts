import { type Collection, writable } from "../../entity/collection.ts";
import { type EntityKind, type FoundEntity, sameSet } from "../../entity/plan.ts";
import { configReferences, configsOf, scopedAttributes } from "../../entity/references.ts";
import type { OverlayServiceSpec } from "./schema.ts";

interface ServiceFields {
  readonly encryptionRequired: boolean;
  readonly roleAttributes: readonly string[];
  readonly configs: readonly string[];
  readonly terminatorStrategy: string;
  readonly maxIdleTimeMillis: number;
}

export interface FoundOverlayService extends FoundEntity {
  readonly encryptionRequired?: boolean;
  readonly roleAttributes?: readonly string[] | null;
  readonly configs?: readonly string[] | null;
  readonly terminatorStrategy?: string;
  readonly maxIdleTimeMillis?: number;
}

const USUAL_STRATEGY = "smartrouting";

export const overlayService: EntityKind<OverlayServiceSpec, ServiceFields, FoundOverlayService> = {
  noun: "service",
  references: configReferences,
  idFields: ["configIds"],
  desired(spec, { scope, references }) {
    const { configs, missing } = configsOf(spec, references);
    return {
      fields: {
        encryptionRequired: spec.encryptionRequired,
        roleAttributes: scopedAttributes(spec.roleAttributes, scope),
        configs,
        terminatorStrategy: spec.terminatorStrategy,
        maxIdleTimeMillis: spec.maxIdleTimeMillis ?? 0,
      },
      missing,
      // A service that lost one of its configs for a while would not be intercepted or hosted any more.
      whileMissing: (found) => ({ configs: found.configs ?? [] }),
    };
  },
  same: {
    encryptionRequired: (wanted, found) => wanted === (found.encryptionRequired ?? wanted),
    roleAttributes: (wanted, found) => sameSet(wanted, found.roleAttributes),
    configs: (wanted, found) => sameSet(wanted, found.configs),
    terminatorStrategy: (wanted, found) => wanted === (found.terminatorStrategy || USUAL_STRATEGY),
    maxIdleTimeMillis: (wanted, found) => wanted === (found.maxIdleTimeMillis ?? 0),
  },
  // Fixed when the service is made: servers take a change and drop it. Who asks for encryption must not believe that there is some.
  refusal: ({ encryptionRequired: there = true }, { encryptionRequired: wanted }) =>
    there === wanted
      ? undefined
      : `was made ${there ? "with" : "without"} encryptionRequired, which can't be changed: delete it in the network to have it made again, or give the resource another name there`,
};

export const services: Collection<ServiceFields, FoundOverlayService> = {
  list: (client, query, call) => client.listServices({ query }, call),
  detail: (client, id, call) => client.detailService({ params: { id } }, call),
  create: async (client, body, call) => (await client.createService({ body: writable(body) }, call)).data.id,
  // Some servers take another value here, though it is fixed when a service is made.
  replace: (client, found, body, call) => {
    const { encryptionRequired = body.encryptionRequired } = found;
    const kept = { ...body, encryptionRequired };
    return client.updateService({ params: { id: found.id }, body: writable(kept) }, call);
  },
  fieldsOf: (found) => ({
    encryptionRequired: found.encryptionRequired ?? true,
    roleAttributes: found.roleAttributes ?? [],
    configs: found.configs ?? [],
    terminatorStrategy: found.terminatorStrategy ?? "",
    maxIdleTimeMillis: found.maxIdleTimeMillis ?? 0,
  }),
  delete: (client, id, call) => client.deleteService({ params: { id } }, call),
};
