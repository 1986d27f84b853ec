import { ApiError } from "@sallyport/api/client";
import { KINDS } from "../../kube/kinds.ts";
import { configs } from "../../network/collections.ts";
import { type ConfigSurroundings, serviceConfig } from "../../plan/entity/service-config.ts";
import { serviceConfigKind } from "../../resources/kinds.ts";
import type { ServiceConfigResource } from "../../resources/service-config.ts";
import type { KindReconciler } from "../loop/kind-reconciler.ts";
import { configOf, type SecretObject, withoutValues } from "./config-source.ts";
import { ConfigTypes } from "./config-types.ts";
import { entityReconciler, Unfit } from "./entity-reconciler.ts";
import { networkSecretProblem } from "./network-secrets.ts";

/** The reconciler of configs: their type is looked up, and their data may come from a Secret. */
export function serviceConfigReconciler(types = new ConfigTypes()): KindReconciler<ServiceConfigResource> {
  return entityReconciler({
    kind: serviceConfigKind,
    entity: serviceConfig,
    collection: configs,
    async lookUp({ metadata, spec }, context, { client }): Promise<ConfigSurroundings | Unfit> {
      const secretRef = spec.dataFrom?.secretRef;
      const problem = secretRef && networkSecretProblem(metadata.namespace, secretRef.name, context);
      if (problem !== undefined) return new Unfit("SecretNotAllowed", problem, { isStalled: true });
      const data = secretRef
        ? configOf(await context.read<SecretObject>(KINDS.Secret, secretRef.name), secretRef)
        : (spec.data ?? {});
      if (data instanceof Unfit) return data;
      const configTypeId = await types.idOf(client, spec.type, context.signal);
      if (configTypeId !== undefined) return { configTypeId, data };
      const message = `the network has no config type called ${spec.type}: make it there, or correct spec.type`;
      return new Unfit("ConfigTypeNotFound", message, { isStalled: true });
    },
    tell: async (_client, _id, { more: { configTypeId } }) => ({ configTypeId }),
    explain(error, { dataFrom }, { data }, client) {
      if (!(error instanceof ApiError)) return error;
      // Perhaps the type was made anew and has another id.
      types.forget(client);
      return dataFrom === undefined ? error : withoutConfig(error, data);
    },
  });
}

/** What a controller says of a config that nobody may see. */
function withoutConfig({ status, code, message, cause, headers = {} }: ApiError, data: object): ApiError {
  const { field, reason = "" } = cause ?? {};
  const about = field === undefined ? undefined : { field, reason: withoutValues(reason, data) };
  return new ApiError(status, code, withoutValues(message, data), about, { headers });
}
