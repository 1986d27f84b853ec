import { create, detail, json, list, patch, remove, replace } from "../operation.ts";
import { routerCreate, routerDetail, routerPatch, routerUpdate } from "../schema/router.ts";

/** All routers, edge routers among them, under both of their names. What is created here is a transit router: no SDK uses it. */
export const routerOperations = {
  listRouters: list("/routers", "admin", routerDetail, "Routers, edge routers among them"),
  createRouter: create("/routers", "admin", json(routerCreate), "Create a transit router"),
  detailRouter: detail("/routers/{id}", "admin", routerDetail, "One router"),
  updateRouter: replace("/routers/{id}", "admin", routerUpdate, "Replace all fields of a transit router"),
  patchRouter: patch("/routers/{id}", "admin", routerPatch, "Change some fields of a transit router"),
  deleteRouter: remove("/routers/{id}", "admin", "Delete a router"),

  listTransitRouters: list("/transit-routers", "admin", routerDetail, "Routers, edge routers among them"),
  createTransitRouter: create("/transit-routers", "admin", json(routerCreate), "Create a transit router"),
  detailTransitRouter: detail("/transit-routers/{id}", "admin", routerDetail, "One router"),
  updateTransitRouter: replace(
    "/transit-routers/{id}",
    "admin",
    routerUpdate,
    "Replace all fields of a transit router",
  ),
  patchTransitRouter: patch("/transit-routers/{id}", "admin", routerPatch, "Change some fields of a transit router"),
  deleteTransitRouter: remove("/transit-routers/{id}", "admin", "Delete a router"),
};
