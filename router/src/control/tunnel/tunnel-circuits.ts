import {
  ControllerCapability,
  decodeControl,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Message,
  ProtocolError,
} from "@sallyport/wire";
import { type CircuitMessage, circuitCreated } from "../circuits.ts";
import type { CircuitCreated } from "../control-plane.ts";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { AskOptions } from "../controllers/controllers.ts";
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
  options: AskOptions,
): Promise<CircuitCreated> {
  const created = controller.has(ControllerCapability.RouterDataModel)
    ? await byModel(controller, request, options)
    : await legacy.withSession(controller, (sessionId) => bySession(controller, legacy, sessionId, request, options));
  if (created.circuitId === "" || created.address === "") {
    const text = "expected a circuit id and an ingress address, the response lacks one";
    throw new ProtocolError("BAD_CIRCUIT_RESPONSE", text);
  }
  return circuitCreated(created, controller);
}

async function byModel(
  controller: ControllerConnection,
  request: TunnelCircuitRequest,
  options: AskOptions,
): Promise<CircuitMessage> {
  const body = encodeControl(edgeCtrlPb.CreateTunnelCircuitV2RequestSchema, {
    serviceName: request.serviceName,
    terminatorInstanceId: request.instanceId ?? "",
    peerData: Object.fromEntries(request.peerData),
  });
  const reply = await controller.channel.request(
    { contentType: EdgeCtrlType.CreateTunnelCircuitV2Request, body },
    options,
  );
  return modelCircuit(expectReply(reply, EdgeCtrlType.CreateTunnelCircuitV2Response));
}

async function bySession(
  controller: ControllerConnection,
  legacy: LegacyServices,
  sessionId: string,
  request: TunnelCircuitRequest,
  options: AskOptions,
): Promise<CircuitMessage> {
  const body = encodeControl(edgeCtrlPb.CreateCircuitForServiceRequestSchema, {
    sessionId,
    serviceName: request.serviceName,
    terminatorInstanceId: request.instanceId ?? "",
    peerData: Object.fromEntries(request.peerData),
  });
  const reply = await controller.channel.request(
    { contentType: EdgeCtrlType.CreateCircuitForServiceRequest, body },
    options,
  );
  const created = sessionCircuit(expectReply(reply, EdgeCtrlType.CreateCircuitForServiceResponse));
  legacy.renewed(controller, created.apiSession);
  return created;
}

export function modelCircuit({ body }: Message): edgeCtrlPb.CreateTunnelCircuitV2Response {
  return decodeControl(edgeCtrlPb.CreateTunnelCircuitV2ResponseSchema, body);
}

export function sessionCircuit({ body }: Message): edgeCtrlPb.CreateCircuitForServiceResponse {
  return decodeControl(edgeCtrlPb.CreateCircuitForServiceResponseSchema, body);
}
