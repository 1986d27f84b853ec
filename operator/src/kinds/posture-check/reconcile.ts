import type { ManagementClient } from "../../controller-client/connection.ts";
import { type Collection, writable } from "../../entity/collection.ts";
import { entityReconciler, noLookUp } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { postureCheckKind } from "../../resources/group.ts";
import { type FoundPostureCheck, type PostureCheckFields, postureCheck } from "./plan.ts";
import type { PostureCheckResource } from "./schema.ts";

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

export const postureCheckReconciler: KindReconciler<PostureCheckResource> = entityReconciler({
  kind: postureCheckKind,
  entity: postureCheck,
  collection: postureChecks,
  lookUp: noLookUp,
});
