import type { KubeClient } from "../kube/client/client.ts";
import { KubeError } from "../kube/client/errors.ts";
import { KINDS, type KubeObject, type ResourceKind } from "../kube/kinds.ts";
import { ANNOTATIONS, SCHEMA_VERSION } from "../resources/group.ts";

/**
 * What is wrong with the CustomResourceDefinitions of the cluster: one that is missing, or older than this operator, whose fields the API server would
 * drop. Undefined: nothing. `forbidden` where the operator may not look, as in one that is limited to namespaces.
 */
export async function problemOfCrds(
  client: Pick<KubeClient, "get">,
  kinds: readonly ResourceKind[],
  signal: AbortSignal,
): Promise<{ readonly problem: string } | "forbidden" | undefined> {
  for (const { plural, group } of kinds) {
    const name = `${plural}.${group}`;
    try {
      const crd = await client.get<KubeObject>({ kind: KINDS.CustomResourceDefinition, name }, { signal });
      if (crd === undefined)
        return { problem: `the CustomResourceDefinition ${name} is missing: apply the folder crds of this version` };
      const version = Number(crd.metadata.annotations?.[ANNOTATIONS.schemaVersion] ?? 0);
      if (version < SCHEMA_VERSION) {
        return {
          problem: `the CustomResourceDefinition ${name} has schema version ${version}, this operator needs ${SCHEMA_VERSION}: apply the folder crds of this version`,
        };
      }
    } catch (error) {
      if (error instanceof KubeError && error.isForbidden) return "forbidden";
      throw error;
    }
  }
  return undefined;
}
