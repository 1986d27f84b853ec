import {
  byteMap,
  ControlHeader,
  ControllerCapability,
  ControlType,
  CreateCircuitHeader,
  ctrlPb,
  decodeControl,
  EdgeCtrlType,
  EdgeErrorCode,
  edgeCtrlPb,
  encodeControl,
  FIRST_PEER_DATA_KEY,
  Headers,
  type Message,
  ProtocolError,
  randomBase62Id,
} from "@sallyport/wire";
import type { CircuitCreated, SdkCircuitRequest, ServiceCircuitRequest } from "./control-plane.ts";
import type { ControllerConnection } from "./controllers/controller-connection.ts";
import type { AskOptions, Controllers } from "./controllers/controllers.ts";
import { ControlError, EdgeCtrlError, expectReply } from "./errors.ts";

/**
 * Has a circuit built for an SDK's dial (docs/protocol/control.md, "Circuits"); controllers that lack the header form get
 * the older message. While no controller is connected one is waited for, within the same time.
 */
export async function createCircuit(controllers: Controllers, request: SdkCircuitRequest): Promise<CircuitCreated> {
  return await controllers.ask("creating a circuit", request.timeoutMs, (controller, options) =>
    createBy(controller, request, options),
  );
}

/** What the messages about a circuit that was built have in common. */
export type CircuitMessage = Pick<edgeCtrlPb.CreateCircuitResponse, "circuitId" | "address" | "peerData" | "tags">;

export function circuitCreated(created: CircuitMessage, { id }: ControllerConnection): CircuitCreated {
  const { circuitId, address, peerData, tags } = created;
  return { circuitId, address, peerData: byteMap(peerData), tags: new Map(Object.entries(tags)), controllerId: id };
}

async function createBy(
  controller: ControllerConnection,
  request: SdkCircuitRequest,
  options: AskOptions,
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
    return olderCircuit(expectReply(reply, EdgeCtrlType.CreateCircuitResponse), controller);
  }
  const headers = dialHeaders(request).setString(CreateCircuitHeader.SessionToken, request.sessionToken);
  const sent = await controller.channel.request({ contentType: EdgeCtrlType.CreateCircuitV2Request, headers }, options);
  return createdOf(expectReply(sent, EdgeCtrlType.CreateCircuitV2Response), controller);
}

/**
 * The same by an access token and the id of a service (docs/protocol/control.md, "Circuits"). A controller that does not know the message is
 * not asked.
 */
export async function createServiceCircuit(
  controllers: Controllers,
  request: ServiceCircuitRequest,
): Promise<CircuitCreated> {
  return await controllers.ask("creating a circuit", request.timeoutMs, async (controller, options) => {
    if (!controller.has(ControllerCapability.JwtSessions)) {
      const text = `controller ${controller.id} is too old for a dial without a session`;
      throw new EdgeCtrlError(EdgeErrorCode.InvalidSession, text);
    }
    const headers = dialHeaders(request)
      .setString(CreateCircuitHeader.IdentityId, request.identityId)
      .setString(CreateCircuitHeader.ServiceId, request.serviceId)
      // Controllers of 2.0 leave a request without one unanswered; ours gives out an id of its own.
      .setString(CreateCircuitHeader.RequestedCircuitId, randomBase62Id());
    const out = { contentType: EdgeCtrlType.CreateCircuitV3Request, headers };
    const reply = await controller.channel.request(out, options);
    return createdOf(expectReply(reply, EdgeCtrlType.CreateCircuitV3Response), controller);
  });
}

function dialHeaders(request: Omit<SdkCircuitRequest, "sessionToken">): Headers {
  return new Headers()
    .setString(CreateCircuitHeader.ApiSessionToken, request.apiSessionToken)
    .setStringList(CreateCircuitHeader.Fingerprints, request.fingerprints)
    .setString(CreateCircuitHeader.TerminatorInstanceId, request.instanceId ?? "")
    .setU32Map(CreateCircuitHeader.PeerData, request.peerData);
}

export function olderCircuit({ body }: Message, controller: ControllerConnection): CircuitCreated {
  return circuitCreated(decodeControl(edgeCtrlPb.CreateCircuitResponseSchema, body), controller);
}

export function createdOf(reply: Message, controller: ControllerConnection): CircuitCreated {
  const circuitId = reply.headers.getString(CreateCircuitHeader.ResponseCircuitId);
  const address = reply.headers.getString(CreateCircuitHeader.ResponseAddress);
  if (!circuitId || !address) {
    const text = "expected a circuit id and an ingress address, the response lacks one";
    throw new ProtocolError("BAD_CIRCUIT_RESPONSE", text);
  }
  return {
    circuitId,
    address,
    peerData: reply.headers.getU32Map(CreateCircuitHeader.PeerData) ?? new Map(),
    tags: reply.headers.getStringMap(CreateCircuitHeader.ResponseTags) ?? new Map(),
    controllerId: controller.id,
  };
}

/** A circuit that a plain listener of this router wants. */
export interface PlainCircuitRequest {
  /** Id or name of the service, perhaps with `instance@` in front. */
  readonly service: string;
  readonly peerData?: ReadonlyMap<number, Buffer>;
  readonly timeoutMs: number;
}

/**
 * Has a circuit built for the router itself (docs/protocol/control.md, "Plain listeners"). While no controller is
 * connected one is waited for, within the same time.
 *
 * @throws ControlError `CIRCUIT_REFUSED` with the controller's text, NoControllerError, and as `Channel.request`
 */
export async function createPlainCircuit(
  controllers: Controllers,
  request: PlainCircuitRequest,
): Promise<CircuitCreated> {
  const body = encodeControl(ctrlPb.CircuitRequestSchema, {
    ingressId: randomBase62Id(),
    service: request.service,
    peerData: Object.fromEntries(request.peerData ?? []),
  });
  return await controllers.ask("creating a circuit", request.timeoutMs, async (controller, options) => {
    const reply = await controller.channel.request({ contentType: ControlType.CircuitRequest, body }, options);
    if (reply.contentType !== ControlType.CircuitFailed) return plainCircuit(reply, controller);
    const text = reply.body.toString("utf8") || "the controller made no circuit and gave no reason";
    throw new ControlError("CIRCUIT_REFUSED", text);
  });
}

export function plainCircuit(reply: Message, { id: controllerId }: ControllerConnection): CircuitCreated {
  const text = reply.body.toString("utf8");
  const address = reply.headers.getString(ControlHeader.CircuitSuccessAddress);
  if (reply.contentType !== ControlType.CircuitSuccess || text === "" || !address) {
    const expected = `expected content type ${ControlType.CircuitSuccess} with circuit id and address`;
    throw new ProtocolError("BAD_CIRCUIT_RESPONSE", `${expected}, got ${reply.contentType}`);
  }
  const peerData = new Map<number, Buffer>();
  for (const [key, value] of reply.headers.entries()) {
    if (key >= FIRST_PEER_DATA_KEY && key !== ControlHeader.CircuitSuccessAddress) peerData.set(key, value);
  }
  return { circuitId: text, address, peerData, tags: new Map(), controllerId };
}
