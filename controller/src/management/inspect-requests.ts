import { decodeControl, encodeControl, ManagementType, mgmtPb } from "@sallyport/wire";
import type { ManagementParts } from "./dependencies.ts";
import type { ManagementHandler } from "./websocket-channel.ts";

/** Questions to the controller and routers about their inner state. */
export function inspectRequests({ fabric }: Pick<ManagementParts, "fabric">): [number, ManagementHandler][] {
  return [
    [
      ManagementType.InspectRequest,
      async (message, channel) => {
        const { appRegex, requestedValues } = decodeControl(mgmtPb.InspectRequestSchema, message.body);
        const { success, errors, values } = await fabric.inspect({ appRegex, requestedValues });
        const body = encodeControl(mgmtPb.InspectResponseSchema, {
          success,
          errors: [...errors],
          values: values.map(({ appId, name, value }) => ({ appId, name, value })),
        });
        channel.reply(message, { contentType: ManagementType.InspectResponse, body });
      },
    ],
  ];
}
