import type { ManagementParts } from "../dependencies.ts";
import type { ManagementHandler } from "../websocket-channel.ts";
import { circuits } from "./circuits.ts";
import { routerDataModel } from "./data-model.ts";
import { identityConnections } from "./identity-connections.ts";
import { routerLinks } from "./router-links.ts";
import { ertTerminators, sdkTerminators } from "./router-terminators.ts";
import { terminators } from "./terminators.ts";

/** Everything that can be compared between the controller and its routers. */
export function validationRequests(parts: ManagementParts): (readonly [number, ManagementHandler])[] {
  return [
    terminators(parts),
    routerLinks(parts),
    sdkTerminators(parts),
    routerDataModel(parts),
    identityConnections(parts),
    ertTerminators(parts),
    circuits(parts),
  ];
}
