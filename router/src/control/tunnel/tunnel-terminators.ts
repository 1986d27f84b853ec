import {
  ControllerCapability,
  decodeControl,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Message,
  TerminatorResult,
} from "@sallyport/wire";
import type { KeptTerminator, TerminatorAnswer } from "../control-plane.ts";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { AskOptions } from "../controllers/controllers.ts";
import { expectReply } from "../errors.ts";
import type { TerminatorProtocol } from "../terminators/terminator-registry.ts";
import type { LegacyServices } from "./legacy-services.ts";

/** A terminator that the router's own tunneler hosts. */
export interface TunnelTerminatorRequest extends KeptTerminator {
  readonly serviceId: string;
  readonly serviceName: string;
}

/**
 * How terminators of a tunneling router are created: 20413 by service id where the controller has the data model, else
 * 20406 by service name and API session (docs/protocol/control.md, "Tunneling").
 */
export class TunnelTerminatorMessages implements TerminatorProtocol<TunnelTerminatorRequest> {
  readonly responseType = EdgeCtrlType.CreateTunnelTerminatorV2Response;
  readonly #legacy: LegacyServices;

  constructor(legacy: LegacyServices) {
    this.#legacy = legacy;
  }

  async request(
    request: TunnelTerminatorRequest,
    controller: ControllerConnection,
    options: AskOptions,
  ): Promise<TerminatorAnswer> {
    const { address, cost } = request;
    const fields = {
      ...{ address, cost, precedence: request.precedence, instanceId: request.instanceId ?? "" },
      startTime: BigInt(Date.now()),
    };
    if (controller.has(ControllerCapability.RouterDataModel)) {
      const body = encodeControl(edgeCtrlPb.CreateTunnelTerminatorV2RequestSchema, {
        ...fields,
        serviceId: request.serviceId,
      });
      const contentType = EdgeCtrlType.CreateTunnelTerminatorV2Request;
      const reply = await controller.channel.request({ contentType, body }, options);
      return this.read(expectReply(reply, this.responseType));
    }
    return this.#legacy.withSession(controller, async (sessionId) => {
      const { serviceName } = request;
      const body = encodeControl(edgeCtrlPb.CreateTunnelTerminatorRequestSchema, { ...fields, serviceName, sessionId });
      const contentType = EdgeCtrlType.CreateTunnelTerminatorRequest;
      const reply = await controller.channel.request({ contentType, body }, options);
      const answer = decodeControl(
        edgeCtrlPb.CreateTunnelTerminatorResponseSchema,
        expectReply(reply, EdgeCtrlType.CreateTunnelTerminatorResponse).body,
      );
      this.#legacy.renewed(controller, answer.apiSession);
      return { terminatorId: answer.terminatorId, result: TerminatorResult.Success, message: "" };
    });
  }

  read(message: Message): TerminatorAnswer {
    const response = decodeControl(edgeCtrlPb.CreateTunnelTerminatorV2ResponseSchema, message.body);
    return { terminatorId: response.terminatorId, result: response.result, message: response.msg };
  }

  /** The id belongs to another host: the tunneler has to choose a new one. Everything else may be allowed later. */
  isFinal(outcome: TerminatorAnswer): boolean {
    return outcome.result === TerminatorResult.FailedIdConflict;
  }

  isSameClaim(a: TunnelTerminatorRequest, b: TunnelTerminatorRequest): boolean {
    return a.serviceId === b.serviceId && a.instanceId === b.instanceId;
  }
}
