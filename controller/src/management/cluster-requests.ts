import { ManagementType } from "@sallyport/wire";
import type { ManagementHandler } from "./websocket-channel.ts";

const NOT_CLUSTERED = "SERVER_NOT_RUNNING_IN_HA_MODE: this controller runs on its own, it is not part of a cluster";

/** There is one controller: everything about others is refused with that. */
export function clusterRequests(): [number, ManagementHandler][] {
  const types = [
    ManagementType.ClusterListMembers,
    ManagementType.ClusterAddMember,
    ManagementType.ClusterRemoveMember,
    ManagementType.ClusterTransferLeadership,
    ManagementType.ClusterInitFromDatabase,
    ManagementType.ClusterInit,
    ManagementType.ClusterRestoreFromDatabase,
  ];
  return types.map((type) => [type, (message, channel) => channel.replyResult(message, false, NOT_CLUSTERED)]);
}
