import { EdgeCtrlHeader, EdgeCtrlType, EdgeErrorCode, type Message } from "@sallyport/wire";
import { ControlError, EdgeCtrlError } from "./errors.ts";

/** The reply when it is of the expected type; an edge error as EdgeCtrlError, anything else as ControlError. */
export function expectReply(reply: Message, contentType: number): Message {
  if (reply.contentType === contentType) return reply;
  if (reply.contentType === EdgeCtrlType.Error) {
    const code = reply.headers.getU32(EdgeCtrlHeader.ErrorCode) ?? EdgeErrorCode.Internal;
    throw new EdgeCtrlError(code, reply.body.toString("utf8"), reply.headers.getString(EdgeCtrlHeader.CircuitId));
  }
  throw new ControlError(
    "UNEXPECTED_REPLY",
    `the controller answered with content type ${reply.contentType}, expected ${contentType}`,
  );
}
