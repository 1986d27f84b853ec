import { ApiError } from "@sallyport/api";
import { ClusterHeader, encodeControl, ManagementType, type Message, mgmtPb } from "@sallyport/wire";
import { Membership } from "../model/replica/membership.ts";
import type { ManagementParts } from "./dependencies.ts";
import type { ManagementHandler, WebSocketChannel } from "./websocket-channel.ts";

/** Requests about the controllers of the network. Source: docs/protocol/management.md, "Requests". */
export function clusterRequests({ replicas, log }: Pick<ManagementParts, "replicas" | "log">) {
  const membership = new Membership(replicas);
  const refusing =
    (work: (message: Message, channel: WebSocketChannel) => Promise<void>): ManagementHandler =>
    async (message, channel) => {
      try {
        await work(message, channel);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        const text = `${error.code}: ${error.cause?.message ?? error.message}`;
        log.info({ channel: channel.label, contentType: message.contentType, text }, "cluster request refused");
        channel.replyResult(message, false, text);
      }
    };
  const otherwise = (what: Parameters<Membership["refusal"]>[0]) =>
    refusing(async () => {
      throw membership.refusal(what);
    });
  const requests: [number, ManagementHandler][] = [
    [
      ManagementType.ClusterListMembers,
      refusing(async (message, channel) => {
        const members = membership.members().map(({ id, ctrlAddress, version, isLive, leads }) => ({
          ...{ id, address: ctrlAddress, version },
          ...{ isVoter: true, isLeader: leads, isConnected: isLive },
        }));
        const body = encodeControl(mgmtPb.ClusterMembersSchema, { members });
        channel.reply(message, { contentType: ManagementType.ClusterMembers, body });
      }),
    ],
    [
      ManagementType.ClusterRemoveMember,
      refusing(async (message, channel) => {
        const id = message.headers.getString(ClusterHeader.MemberId) ?? "";
        await channel.within(() => membership.remove(id));
        channel.replyResult(message, true, `controller ${id} was removed`);
      }),
    ],
    [ManagementType.ClusterAddMember, otherwise("add")],
    [ManagementType.ClusterTransferLeadership, otherwise("lead")],
    [ManagementType.ClusterInit, otherwise("add")],
    [ManagementType.ClusterInitFromDatabase, otherwise("load")],
    [ManagementType.ClusterRestoreFromDatabase, otherwise("load")],
  ];
  return requests;
}
