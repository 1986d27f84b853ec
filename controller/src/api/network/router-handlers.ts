import type { ListQuery, routerOperations } from "@sallyport/api";
import type { ApiHandlers } from "../../http/context.ts";
import type { RouterChange } from "../../model/network/routers.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { transitRouterFields } from "../lists/fields.ts";
import { listed, only } from "../lists/listing.ts";
import { renderRouters } from "../render/router.ts";

/** `/routers` and `/transit-routers` are two names of the same. */
export function routerHandlers(deps: ApiDependencies): ApiHandlers<typeof routerOperations> {
  const { model, fabric } = deps;
  const { db } = deps.ctx.store;

  const listAll = ({ list }: { list: ListQuery }) =>
    listed(db.selectFrom("router").selectAll(), "router", transitRouterFields(fabric.onlineRouterIds()), list, (rows) =>
      renderRouters(deps, rows),
    );
  const create = async ({
    body,
  }: {
    body: Omit<Parameters<typeof model.routers.create>[0], keyof typeof NO_EDGE>;
  }) => ({
    id: await model.routers.create({ ...body, ...NO_EDGE }, "transit"),
  });
  const show = async ({ params }: { params: { readonly id: string } }) => ({
    data: only(await renderRouters(deps, [await model.routers.get(db, params.id)])),
  });
  const update = ({ params, body }: { params: { readonly id: string }; body: RouterChange }) =>
    model.routers.update(params.id, body, "transit");
  const remove = ({ params }: { params: { readonly id: string } }) => model.routers.delete(params.id);

  return {
    listRouters: listAll,
    createRouter: create,
    detailRouter: show,
    updateRouter: update,
    patchRouter: update,
    deleteRouter: remove,
    listTransitRouters: listAll,
    createTransitRouter: create,
    detailTransitRouter: show,
    updateTransitRouter: update,
    patchTransitRouter: update,
    deleteTransitRouter: remove,
  };
}

/** What only edge routers have. */
const NO_EDGE = { appData: {}, isTunnelerEnabled: false, roleAttributes: [] };
