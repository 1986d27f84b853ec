import type { syncStatus } from "@sallyport/api";
import type { VersionInfo } from "@sallyport/wire";
import type { z } from "zod";
import type { Authentication } from "../auth/authentication.ts";
import type { Enrolling } from "../auth/enrolling.ts";
import type { ModelContext } from "../model/context.ts";
import type { Model } from "../model/model.ts";

/** What the API shows of a router's control channel. */
export interface RouterState {
  readonly isOnline: boolean;
  readonly hostname: string;
  /** Protocol to URL, as SDKs connect; empty while offline. */
  readonly supportedProtocols: Readonly<Record<string, string>>;
  readonly syncStatus: SyncStatus;
  readonly versionInfo?: VersionInfo;
}

export type SyncStatus = z.infer<typeof syncStatus>;

/** What the API needs of the fabric. */
export interface FabricView {
  /** Undefined for a router that is not connected. */
  routerState(routerId: string): RouterState | undefined;
  onlineRouterIds(): readonly string[];
  /** Extra cost of a terminator after failed dials, 0…65535. */
  dynamicCost(terminatorId: string): number;
  /** Tells the connected routers of a session; a login is answered afterwards. */
  announceApiSession(session: {
    readonly id: string;
    readonly token: string;
    readonly identityId: string;
    readonly certFingerprints: readonly string[];
  }): Promise<void>;
  /** Is the identity connected to an edge router? `unknown` while no router has said. */
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
