import {
  ControlHeader,
  ControlType,
  ctrlPb,
  encodeControl,
  FIRST_PEER_DATA_KEY,
  ProtocolError,
  randomBase62Id,
} from "@sallyport/wire";
import type { CircuitCreated } from "./control-plane.ts";
import type { Controllers } from "./controllers/controllers.ts";
import { ControlError } from "./errors.ts";

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
  const { reply, controllerId } = await controllers.ask(
    "creating a circuit",
    request.timeoutMs,
    async ({ channel, id }, timeoutMs) => ({
      reply: await channel.request({ contentType: ControlType.CircuitRequest, body }, { timeoutMs }),
      controllerId: id,
    }),
  );
  const text = reply.body.toString("utf8");
  if (reply.contentType === ControlType.CircuitFailed) {
    throw new ControlError("CIRCUIT_REFUSED", text || "the controller made no circuit and gave no reason");
  }
  const address = reply.headers.getString(ControlHeader.CircuitSuccessAddress);
  if (reply.contentType !== ControlType.CircuitSuccess || text === "" || !address) {
    throw new ProtocolError(
      "BAD_CIRCUIT_RESPONSE",
      `expected content type ${ControlType.CircuitSuccess} with circuit id and address, got ${reply.contentType}`,
    );
  }
  const peerData = new Map<number, Buffer>();
  for (const [key, value] of reply.headers.entries()) {
    if (key >= FIRST_PEER_DATA_KEY && key !== ControlHeader.CircuitSuccessAddress) peerData.set(key, value);
  }
  return { circuitId: text, address, peerData, tags: new Map(), controllerId };
}
