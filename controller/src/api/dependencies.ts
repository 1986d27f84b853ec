import type { syncStatus } from "@sallyport/api";
import type { VersionInfo } from "@sallyport/wire";
import type { z } from "zod";
import type { Authentication } from "../auth/authentication.ts";
import type { Enrolling } from "../auth/enrolling.ts";
import type { Circuit } from "../fabric/circuits/circuit.ts";
import type { LinkState } from "../fabric/fabric.ts";
import type { InspectionRequest, InspectionResult } from "../fabric/inspection.ts";
import type { ModelContext } from "../model/context.ts";
import type { Model } from "../model/model.ts";

/** What the API shows of a router's control channel. */
export interface RouterView {
  readonly isOnline: boolean;
  readonly hostname: string;
  /** Protocol to URL, as SDKs connect; empty while offline. */
  readonly supportedProtocols: Readonly<Record<string, string>>;
  readonly syncStatus: z.infer<typeof syncStatus>;
  readonly versionInfo?: VersionInfo;
  /** Where other routers dial it. */
  readonly linkListeners?: readonly { readonly address: string; readonly protocol: string }[];
}

/** What the API needs of the fabric. */
export interface FabricView {
  /** Undefined for a router that is not connected. */
  routerState(routerId: string): RouterView | undefined;
  /** Just after the start: resolves when clients can use one of these routers, or none is on its way back; else at once. */
  someRouterBack(routerIds: readonly string[]): Promise<void>;
  onlineRouterIds(): readonly string[];
  /** Extra cost of a terminator after failed dials, 0…65535. */
  dynamicCost(terminatorId: string): number;
  /** Announces a session to the connected routers; a login is answered afterwards. */
  announceApiSession(session: {
    readonly id: string;
    readonly token: string;
    readonly identityId: string;
    readonly certFingerprints: readonly string[];
  }): Promise<void>;
  links(): readonly LinkState[];
  link(id: string): LinkState | undefined;
  /** Undefined when there is no such link. */
  updateLink(id: string, change: { readonly staticCost?: number; readonly isDown?: boolean }): LinkState | undefined;
  /** Has both ends close it. False for a link that is unknown here: then all routers get the message. */
  removeLink(id: string): boolean;
  circuits(): readonly Circuit[];
  circuit(id: string): Circuit | undefined;
  removeCircuit(id: string, isImmediate: boolean): boolean;
  /** Closes a router's control channel, if it has one. */
  disconnectRouter(id: string, reason: string): boolean;
  inspect(request: InspectionRequest): Promise<InspectionResult>;
  /** Is the identity connected to an edge router? `unknown` while no router has reported it. */
  identityConnection(identityId: string): "online" | "offline" | "unknown";
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
