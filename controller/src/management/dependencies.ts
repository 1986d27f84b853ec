import type { Logger } from "@sallyport/wire";
import type { Kysely } from "kysely";
import type { Dispatcher } from "../events/dispatcher.ts";
import type { Fabric } from "../fabric/fabric.ts";
import type { FabricModel } from "../fabric/ports.ts";
import type { Database } from "../store/schema.ts";

/** What the management channel needs of the fabric. */
export type ManagedFabric = Pick<
  Fabric,
  | "onEvent"
  | "onlineRouterIds"
  | "inspect"
  | "operations"
  | "links"
  | "removeLink"
  | "circuit"
  | "circuits"
  | "disconnectRouter"
  | "identitiesOf"
  | "keepsDataModel"
  | "validateDataModel"
>;

export interface ManagementParts {
  readonly controllerId: string;
  readonly db: Kysely<Database>;
  readonly fabric: ManagedFabric;
  readonly model: Pick<FabricModel, "quiesceRouter" | "dequiesceRouter" | "deleteRouter" | "deleteTerminators">;
  readonly dispatcher: Dispatcher;
  /** Writes a snapshot of the database and says where. */
  readonly snapshot: () => Promise<string>;
  /** What the controller's own copy of the data that routers get differs in from the store. */
  readonly dataModelProblems: () => Promise<readonly string[]>;
  readonly log: Logger;
}
