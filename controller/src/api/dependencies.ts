import type { syncStatus } from "@sallyport/api";
import type { VersionInfo } from "@sallyport/wire";
import type { z } from "zod";
import type { Authentication } from "../auth/authentication.ts";
import type { Enrolling } from "../auth/enrolling.ts";
import type { Fabric } from "../fabric/fabric.ts";
import type { RouterState } from "../fabric/routers/router-connection.ts";
import type { ModelContext } from "../model/context.ts";
import type { Model } from "../model/model.ts";

/** What the API shows of a router's control channel. `supportedProtocols` is empty while it is offline. */
export type RouterView = Pick<RouterState, "hostname" | "supportedProtocols"> &
  Partial<Pick<RouterState, "versionInfo" | "linkListeners" | "capabilities" | "checksPosture">> & {
    readonly isOnline: boolean;
    readonly syncStatus: z.infer<typeof syncStatus>;
  };

/** What the API needs of the fabric. */
export interface FabricView
  extends Pick<
    Fabric,
    | "someRouterBack"
    | "onlineRouterIds"
    | "dynamicCost"
    | "chooseTerminator"
    | "announceApiSession"
    | "links"
    | "link"
    | "updateLink"
    | "removeLink"
    | "circuits"
    | "circuit"
    | "removeCircuit"
    | "disconnectRouter"
    | "inspect"
    | "identityConnection"
  > {
  /** Undefined for a router that is not connected. */
  routerState(routerId: string): RouterView | undefined;
}

/** What the controller says about itself. */
export interface ControllerInfo {
  readonly version: VersionInfo;
  readonly runtimeVersion: string;
  /** `host:port` of the API as advertised. */
  readonly apiAddress: string;
}

/** What all handlers work with. */
export interface ApiDependencies {
  readonly ctx: ModelContext;
  readonly model: Model;
  readonly authentication: Authentication;
  readonly enrolling: Enrolling;
  readonly fabric: FabricView;
  readonly info: ControllerInfo;
}
