import type { ListQuery, syncStatus } from "@sallyport/api";
import type { Permission, VersionInfo } from "@sallyport/wire";
import type { z } from "zod";
import type { Authentication } from "../auth/authentication.ts";
import type { Enrolling } from "../auth/enrolling.ts";
import type { CircuitState } from "../fabric/circuits/circuit.ts";
import type { Fabric } from "../fabric/fabric.ts";
import type { InspectionRequest, InspectionResult } from "../fabric/inspection.ts";
import type { RouterState } from "../fabric/routers/router-connection.ts";
import type { ModelContext } from "../model/context.ts";
import type { Trace, TraceWish } from "../model/identity/traces.ts";
import type { Model } from "../model/model.ts";
import type { FailedRequest } from "../model/posture/failed-requests.ts";
import type { DialFacts } from "../policy/why/facts.ts";

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
    | "identityConnection"
  > {
  /** Undefined for a router that is not connected. */
  routerState(routerId: string): RouterView | undefined;
}

/** What one process of several alone can tell or do: here all of them are asked, whichever of them got the request. */
export interface NetworkView {
  /** A page of the circuits of all processes. @throws ApiError for a bad filter or sort */
  circuitPage(list: ListQuery): Promise<{ readonly data: readonly CircuitState[]; readonly totalCount: number }>;
  circuit(id: string): Promise<CircuitState | undefined>;
  circuitOfSession(sessionId: string): Promise<CircuitState | undefined>;
  /** False when there is none. */
  removeCircuit(id: string, isImmediate: boolean): Promise<boolean>;
  removeLink(id: string): Promise<boolean>;
  disconnectRouter(id: string, reason: string): Promise<boolean>;
  inspect(request: InspectionRequest): Promise<InspectionResult>;
}

/** What each process remembers of identities, or does for one, for administrators: of all processes, as in {@link NetworkView}. */
export interface MemoryView {
  dials(identityId: string, serviceId: string, type: Permission): Promise<DialFacts>;
  /** Oldest first. */
  failedRequests(identityId: string): Promise<FailedRequest[]>;
  /** @throws ApiError 400 on `duration`, or `traceId` */
  enableTrace(identityId: string, wish: TraceWish): Promise<Trace>;
  disableTrace(identityId: string): Promise<void>;
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
  readonly network: NetworkView;
  readonly memory: MemoryView;
  readonly info: ControllerInfo;
}
