import {
  ControllerCapability,
  decodeControl,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  ProtocolError,
} from "@sallyport/wire";
import { type CircuitMessage, circuitCreated } from "../circuits.ts";
import type { CircuitCreated } from "../control-plane.ts";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import { expectReply } from "../errors.ts";
import type { LegacyServices } from "./legacy-services.ts";

/** A dial of the router's own tunneler. */
export interface TunnelCircuitRequest {
  readonly serviceName: string;
  readonly instanceId: string | undefined;
  /** To the terminating side: public key (1003), app data (1011), addresses of the client's connection (1112, 1113). */
  readonly peerData: ReadonlyMap<number, Buffer>;
  readonly timeoutMs: number;
}

/**
 * Has a circuit built for the router's own identity (docs/protocol/control.md, "Tunneling").
 *
 * @throws EdgeCtrlError with the controller's reason; and as `Channel.request`
 */
export async function createTunnelCircuit(
  controller: ControllerConnection,
  legacy: LegacyServices,
  request: TunnelCircuitRequest,
): Promise<CircuitCreated> {
  const created = controller.has(ControllerCapability.RouterDataModel)
    ? await byModel(controller, request)
    : await legacy.withSession(controller, (sessionId) => bySession(controller, legacy, sessionId, request));
  if (created.circuitId === "" || created.address === "") {
    const text = "expected a circuit id and an ingress address, the response lacks one";
    throw new ProtocolError("BAD_CIRCUIT_RESPONSE", text);
  }
  return circuitCreated(created, controller);
}

async function byModel(controller: ControllerConnection, request: TunnelCircuitRequest): Promise<CircuitMessage> {
  const body = encodeControl(edgeCtrlPb.CreateTunnelCircuitV2RequestSchema, {
    serviceName: request.serviceName,
    terminatorInstanceId: request.instanceId ?? "",
    peerData: Object.fromEntries(request.peerData),
  });
  const reply = await controller.channel.request(
    { contentType: EdgeCtrlType.CreateTunnelCircuitV2Request, body },
    { timeoutMs: request.timeoutMs },
  );
  const answer = expectReply(reply, EdgeCtrlType.CreateTunnelCircuitV2Response);
  return decodeControl(edgeCtrlPb.CreateTunnelCircuitV2ResponseSchema, answer.body);
}

async function bySession(
  controller: ControllerConnection,
  legacy: LegacyServices,
  sessionId: string,
  request: TunnelCircuitRequest,
): Promise<CircuitMessage> {
  const body = encodeControl(edgeCtrlPb.CreateCircuitForServiceRequestSchema, {
    sessionId,
    serviceName: request.serviceName,
    terminatorInstanceId: request.instanceId ?? "",
    peerData: Object.fromEntries(request.peerData),
  });
  const reply = await controller.channel.request(
    { contentType: EdgeCtrlType.CreateCircuitForServiceRequest, body },
    { timeoutMs: request.timeoutMs },
  );
  const answer = expectReply(reply, EdgeCtrlType.CreateCircuitForServiceResponse);
  const created = decodeControl(edgeCtrlPb.CreateCircuitForServiceResponseSchema, answer.body);
  legacy.renewed(controller, created.apiSession);
  return created;
}
