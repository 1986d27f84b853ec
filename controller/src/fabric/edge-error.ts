import { type Denial, DenialCode } from "./ports.ts";

/** Texts routers and SDKs show for a refusal; a router of the 1.6 generation hands only the text on. Source: docs/protocol/fabric.md, "Errors". */
const TEXT: Readonly<Record<DenialCode, string>> = {
  [DenialCode.Internal]: "internal error",
  [DenialCode.InvalidApiSession]: "invalid api session",
  [DenialCode.InvalidSession]: "invalid session",
  [DenialCode.WrongSessionType]: "incorrect session type",
  [DenialCode.InvalidEdgeRouterForSession]: "invalid edge router for session",
  [DenialCode.InvalidService]: "invalid service",
  [DenialCode.TunnelingNotEnabled]: "tunneling not enabled",
  [DenialCode.InvalidTerminator]: "invalid terminator",
  [DenialCode.InvalidPrecedence]: "invalid precedence",
  [DenialCode.InvalidCost]: "invalid cost",
  [DenialCode.EncryptionDataMissing]: "encryption data missing",
  [DenialCode.AccessDenied]: "access denied",
};

/** A request of a router is refused; the answer carries the code and the text. */
export class EdgeRefusal extends Error {
  readonly code: DenialCode;
  /** The circuit a failed circuit request had been given. */
  readonly circuitId: string | undefined;

  constructor(code: DenialCode, message?: string, circuitId?: string) {
    super(message ?? TEXT[code]);
    this.name = "EdgeRefusal";
    this.code = code;
    this.circuitId = circuitId;
  }

  static of(denial: Denial): EdgeRefusal {
    return new EdgeRefusal(denial.denied, denial.message);
  }
}
