import {
  byteMap,
  ControllerCapability,
  CreateCircuitHeader,
  decodeControl,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  ProtocolError,
  type RequestOptions,
} from "@sallyport/wire";
import type { CircuitCreated, SdkCircuitRequest } from "./control-plane.ts";
import type { ControllerConnection } from "./controllers/controller-connection.ts";
import type { Controllers } from "./controllers/controllers.ts";
import { expectReply } from "./edge-error.ts";

/**
 * Has a circuit built for an SDK's dial (docs/protocol/control.md, "Circuits"); controllers that lack the header form get
 * the older message. While no controller is connected one is waited for, within the same time.
 */
export async function createCircuit(controllers: Controllers, request: SdkCircuitRequest): Promise<CircuitCreated> {
  return await controllers.ask("creating a circuit", request.timeoutMs, (controller, timeoutMs) =>
    createBy(controller, request, { timeoutMs }),
  );
}

async function createBy(
  controller: ControllerConnection,
  request: SdkCircuitRequest,
  options: RequestOptions,
): Promise<CircuitCreated> {
  if (!controller.has(ControllerCapability.CreateCircuitV2)) {
    const body = encodeControl(edgeCtrlPb.CreateCircuitRequestSchema, {
      sessionToken: request.sessionToken,
      apiSessionToken: request.apiSessionToken,
      fingerprints: [...request.fingerprints],
      terminatorInstanceId: request.instanceId ?? "",
      peerData: Object.fromEntries(request.peerData),
    });
    const reply = await controller.channel.request({ contentType: EdgeCtrlType.CreateCircuitRequest, body }, options);
    const created = decodeControl(
      edgeCtrlPb.CreateCircuitResponseSchema,
      expectReply(reply, EdgeCtrlType.CreateCircuitResponse).body,
    );
    return {
      circuitId: created.circuitId,
      address: created.address,
      peerData: byteMap(created.peerData),
      tags: new Map(Object.entries(created.tags)),
      controllerId: controller.id,
    };
  }
  const headers = new Headers()
    .setString(CreateCircuitHeader.SessionToken, request.sessionToken)
    .setString(CreateCircuitHeader.ApiSessionToken, request.apiSessionToken)
    .setStringList(CreateCircuitHeader.Fingerprints, request.fingerprints)
    .setString(CreateCircuitHeader.TerminatorInstanceId, request.instanceId ?? "")
    .setU32Map(CreateCircuitHeader.PeerData, request.peerData);
  const sent = await controller.channel.request({ contentType: EdgeCtrlType.CreateCircuitV2Request, headers }, options);
  const reply = expectReply(sent, EdgeCtrlType.CreateCircuitV2Response);
  const circuitId = reply.headers.getString(CreateCircuitHeader.ResponseCircuitId);
  const address = reply.headers.getString(CreateCircuitHeader.ResponseAddress);
  if (!circuitId || !address) {
    throw new ProtocolError(
      "BAD_CIRCUIT_RESPONSE",
      "expected a circuit id and an ingress address, the response lacks one",
    );
  }
  return {
    circuitId,
    address,
    peerData: reply.headers.getU32Map(CreateCircuitHeader.PeerData) ?? new Map(),
    tags: reply.headers.getStringMap(CreateCircuitHeader.ResponseTags) ?? new Map(),
    controllerId: controller.id,
  };
}
