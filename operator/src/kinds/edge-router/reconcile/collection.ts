import type { Collection } from "../../../entity/collection.ts";
import type { EdgeRouterFields, FoundEdgeRouter } from "../plan/entity.ts";

/** The API's shapes are written by hand on both sides: what is read only here may be written there. */
const body = (fields: object): never => fields as never;

/** What a replacement must not take away: the routers' controllers of their own, which the network keeps with them. */
const keptOf = ({ ctrlChanListeners }: FoundEdgeRouter) =>
  ctrlChanListeners === undefined ? {} : { ctrlChanListeners };

export const edgeRouters: Collection<EdgeRouterFields, FoundEdgeRouter> = {
  list: (client, query, call) => client.listEdgeRouters({ query }, call),
  detail: async (client, id, call) => (await client.detailEdgeRouter({ params: { id } }, call)).data,
  create: async (client, fields, call) => (await client.createEdgeRouter({ body: body(fields) }, call)).data.id,
  change: (client, { found, whole }, call) =>
    client.updateEdgeRouter({ params: { id: found.id }, body: body({ ...whole, ...keptOf(found) }) }, call),
  retag(client, found, tags, call) {
    const fields = {
      roleAttributes: found.roleAttributes ?? [],
      cost: found.cost ?? 0,
      noTraversal: found.noTraversal ?? false,
      disabled: found.disabled ?? false,
      isTunnelerEnabled: found.isTunnelerEnabled ?? false,
      appData: found.appData ?? {},
    };
    const whole = { ...fields, ...keptOf(found), name: found.name, tags };
    return client.updateEdgeRouter({ params: { id: found.id }, body: body(whole) }, call);
  },
  delete: (client, id, call) => client.deleteEdgeRouter({ params: { id } }, call),
};
