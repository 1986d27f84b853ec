import {
  ControllerCapability,
  decodeControl,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  TerminatorResult,
} from "@sallyport/wire";
import type { TerminatorRequest } from "../control-plane.ts";
import { ControlError, knownHint } from "../errors.ts";
import type { TerminatorProtocol } from "./terminator-registry.ts";

/** How terminators of applications are created: 20216, by the tokens of their sessions (docs/protocol/control.md, "Terminators"). */
export const sdkTerminatorMessages: TerminatorProtocol<TerminatorRequest> = {
  responseType: EdgeCtrlType.CreateTerminatorV2Response,

  async request(request, controller, options) {
    if (!controller.has(ControllerCapability.CreateTerminatorV2)) {
      return {
        terminatorId: request.address,
        result: TerminatorResult.FailedOther,
        message: `controller ${controller.id} is too old to host terminators of this router`,
      };
    }
    const body = encodeControl(edgeCtrlPb.CreateTerminatorV2RequestSchema, {
      address: request.address,
      sessionToken: request.sessionToken,
      apiSessionToken: request.apiSessionToken,
      fingerprints: [...request.fingerprints],
      peerData: Object.fromEntries(request.peerData),
      cost: request.cost,
      precedence: request.precedence,
      instanceId: request.instanceId ?? "",
      instanceSecret: request.instanceSecret ?? new Uint8Array(),
    });
    const contentType = EdgeCtrlType.CreateTerminatorV2Request;
    const reply = await controller.channel.request({ contentType, body }, options);
    if (reply.contentType !== EdgeCtrlType.CreateTerminatorV2Response) {
      throw new ControlError("UNEXPECTED_REPLY", `the controller answered with content type ${reply.contentType}`);
    }
    return this.read(reply);
  },

  read(message) {
    const response = decodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, message.body);
    const { terminatorId, result, msg, errorCode, retryHint } = response;
    // Older controllers send neither a code nor a hint.
    const reason = errorCode === 0 ? {} : { errorCode, retryHint: knownHint(retryHint) };
    return { terminatorId, result, message: msg, ...reason };
  },

  /** The application is told of every failure but busy, and asks again itself. */
  isFinal: () => true,

  isSameClaim: (a, b) => a.sessionToken === b.sessionToken && a.apiSessionToken === b.apiSessionToken,
};
