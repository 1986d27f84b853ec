import type { Logger } from "@sallyport/wire";
import type { Kysely } from "kysely";
import type { Dispatcher } from "../events/dispatcher.ts";
import type { Fabric } from "../fabric/fabric.ts";
import type { FabricModel } from "../fabric/ports.ts";
import type { ReplicaSet } from "../model/replica/replica-set.ts";
import type { NetworkEvents } from "../replicas/network-events.ts";
import type { WholeNetwork } from "../replicas/whole-network.ts";
import type { ChangeLog } from "../store/changes/change-log.ts";
import type { Database } from "../store/schema.ts";

export interface ManagementParts {
  readonly controllerId: string;
  readonly db: Kysely<Database>;
  readonly changes: Pick<ChangeLog, "subscribe">;
  readonly fabric: Fabric;
  /** What all controllers of the network know and do. */
  readonly network: WholeNetwork;
  /** The controllers of the network. */
  readonly replicas: ReplicaSet;
  readonly model: Pick<FabricModel, "quiesceRouter" | "dequiesceRouter" | "deleteRouter" | "deleteUnchanged">;
  readonly dispatcher: Dispatcher;
  /** Events of the other controllers; undefined for one that has no others. */
  readonly events?: NetworkEvents;
  /** Writes a snapshot of the database and says where. */
  readonly snapshot: () => Promise<string>;
  /** How the controller's own copy of the routers' data model differs from the store. */
  readonly dataModelProblems: () => Promise<readonly string[]>;
  readonly log: Logger;
}
