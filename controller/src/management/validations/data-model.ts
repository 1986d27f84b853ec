import { decodeControl, encodeControl, ManagementType, mgmtPb, RequestTimeoutError } from "@sallyport/wire";
import { DataModelTooLargeError } from "../../fabric/data-model/data-model-source.ts";
import type { ManagementParts } from "../dependencies.ts";
import { eachOf, type NamedRouter, routersBy, validation, whyUnanswered } from "./validation.ts";

/** Reported differences of one router: those of a router with an empty model would fill a message. */
const MAX_ERRORS = 1_000;

/** Compares the routers' copies of the network's model with the controller's, and the controller's with the store. */
export function routerDataModel(parts: ManagementParts) {
  return validation(ManagementType.ValidateRouterDataModel, async (message) => {
    const request = decodeControl(mgmtPb.ValidateRouterDataModelRequestSchema, message.body);
    const routers = await routersBy(parts, request.routerFilter);
    return {
      count: routers.length + (request.validateCtrl ? 1 : 0),
      run: async (report, isStopped) => {
        if (request.validateCtrl) {
          const { controllerId: id } = parts;
          const about = { componentType: "controller", componentId: id, componentName: id };
          const errors = (await parts.dataModelProblems()).slice(0, MAX_ERRORS);
          const result = { ...about, validateSuccess: errors.length === 0, errors };
          await report(encodeControl(mgmtPb.ComponentDetailsSchema, result));
        }
        await eachOf(routers, isStopped, async (router) =>
          report(encodeControl(mgmtPb.ComponentDetailsSchema, await modelOf(parts, router, request.fix))),
        );
      },
    };
  });
}

async function modelOf({ fabric }: ManagementParts, router: NamedRouter, fix: boolean) {
  const about = { componentType: "router", componentId: router.id, componentName: router.name };
  const failed = (text: string) => ({ ...about, validateSuccess: false, errors: [text] });
  // A router that works by sessions alone has nothing that could differ.
  if (fabric.onlineRouterIds().includes(router.id) && !fabric.keepsDataModel(router.id)) {
    return { ...about, validateSuccess: true, errors: [] };
  }
  try {
    const found = await fabric.validateDataModel(router.id, fix);
    if (found === undefined) return failed("router is not connected");
    const errors = found.differences
      .slice(0, MAX_ERRORS)
      .map(
        (difference) => `${difference.entityType} ${difference.entityId} ${difference.diffType}: ${difference.detail}`,
      );
    return { ...about, validateSuccess: errors.length === 0, errors };
  } catch (error) {
    if (error instanceof DataModelTooLargeError) return failed(error.message);
    if (error instanceof RequestTimeoutError) return failed("router does not answer; it may keep no model");
    return failed(whyUnanswered(error));
  }
}
