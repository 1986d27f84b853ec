import { type Collection, writable } from "../../entity/collection.ts";
import type { EntityBody } from "../../entity/plan.ts";
import { entityReconciler } from "../../entity/reconcile.ts";
import type { KindReconciler } from "../../loop/kind-reconciler.ts";
import { postureCheckKind } from "../../resources/group.ts";
import { type FoundPostureCheck, type PostureCheckFields, postureCheck } from "./plan.ts";
import type { PostureCheckResource } from "./schema.ts";

/** The variant's fields are those of the check itself. */
export const postureChecks: Collection<PostureCheckFields, FoundPostureCheck> = {
  list: (client, query, call) => client.listPostureChecks({ query }, call),
  detail: async (client, id, call) => (await client.detailPostureCheck({ params: { id } }, call)).data,
  create: async (client, body, call) => (await client.createPostureCheck({ body: flat(body) }, call)).data.id,
  replace: (client, { id }, body, call) => client.updatePostureCheck({ params: { id }, body: flat(body) }, call),
  fieldsOf(found) {
    const { _links, createdAt, updatedAt, version, id, name, tags, roleAttributes, ...rest } = found as Shown;
    const systems = found.operatingSystems?.map(({ type, versions }) => ({ type, versions: versions ?? [] }));
    const variant = { ...rest, ...(systems && { operatingSystems: systems }) } as PostureCheckFields["variant"];
    return { roleAttributes: roleAttributes ?? [], variant };
  },
  delete: (client, id, call) => client.deletePostureCheck({ params: { id } }, call),
};

type Shown = FoundPostureCheck & Readonly<Record<string, unknown>>;

const flat = ({ variant, ...rest }: EntityBody<PostureCheckFields>) => writable({ ...rest, ...variant });

export const postureCheckReconciler: KindReconciler<PostureCheckResource> = entityReconciler({
  kind: postureCheckKind,
  entity: postureCheck,
  collection: postureChecks,
});
