import { ApiError, type ManagementClient } from "@sallyport/api/client";
import {
  type ConfigSurroundings,
  type ServiceConfigResource,
  serviceConfig,
  serviceConfigKind,
} from "@sallyport/resources";
import { configs } from "@sallyport/resources/sync";
import { entityReconciler, LookUpProblem } from "../../entity/reconcile.ts";
import { KINDS, type SecretObject } from "../../kube/kinds.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { networkSecretProblem } from "../network/interface.ts";
import { configOf, withoutValues } from "./config-source.ts";

/** Ids of config types by name, once for each network: they hardly ever change. */
class ConfigTypes {
  readonly #ids = new WeakMap<ManagementClient, Map<string, string>>();

  /** Undefined when the network has no type of that name. */
  async idOf(client: ManagementClient, name: string, signal: AbortSignal): Promise<string | undefined> {
    const known = this.#ids.get(client)?.get(name);
    if (known !== undefined) return known;
    const query = { filter: `name = ${JSON.stringify(name)}`, limit: 1 };
    const [type] = (await client.listConfigTypes({ query }, { signal })).data;
    if (type === undefined) return undefined;
    const ids = this.#ids.get(client) ?? new Map();
    this.#ids.set(client, ids.set(name, type.id));
    return type.id;
  }

  /** Something was refused: perhaps because a type was made again. */
  forget(client: ManagementClient): void {
    this.#ids.delete(client);
  }
}

/** The reconciler of configs: their type is looked up, and their data may come from a Secret. */
export function serviceConfigReconciler(types = new ConfigTypes()): KindReconciler<ServiceConfigResource> {
  return entityReconciler({
    kind: serviceConfigKind,
    entity: serviceConfig,
    collection: configs,
    async lookUp({ metadata, spec }, context, { client }): Promise<ConfigSurroundings | LookUpProblem> {
      const secretRef = spec.dataFrom?.secretRef;
      const problem = secretRef && networkSecretProblem(metadata.namespace, secretRef.name, context);
      if (problem !== undefined) return new LookUpProblem("SecretNotAllowed", problem, { isStalled: true });
      const data = secretRef
        ? configOf(await context.read<SecretObject>(KINDS.Secret, secretRef.name), secretRef)
        : (spec.data ?? {});
      if (data instanceof LookUpProblem) return data;
      const configTypeId = await types.idOf(client, spec.type, context.signal);
      if (configTypeId !== undefined) return { configTypeId, data };
      const message = `the network has no config type called ${spec.type}: make it there, or correct spec.type`;
      return new LookUpProblem("ConfigTypeNotFound", message, { isStalled: true });
    },
    statusOf: async (_client, _id, { more: { configTypeId } }) => ({ configTypeId }),
    explain(error, { dataFrom }, { data }, client) {
      if (!(error instanceof ApiError)) return error;
      // Perhaps the type was made again and has another id.
      types.forget(client);
      return dataFrom === undefined ? error : withoutConfig(error, data);
    },
  });
}

/** A controller's refusal of a config, without the config's values. */
function withoutConfig({ status, code, message, cause, headers = {} }: ApiError, data: object): ApiError {
  const { field, reason = "" } = cause ?? {};
  const about = field === undefined ? undefined : { field, reason: withoutValues(reason, data) };
  return new ApiError(status, code, withoutValues(message, data), about, { headers });
}
