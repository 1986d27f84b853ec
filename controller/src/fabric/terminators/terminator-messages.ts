import {
  byteMap,
  ControlType,
  ctrlPb,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Logger,
  type Message,
  type Outgoing,
  type PrecedenceName,
  precedenceName,
  RetryHint,
  RouterBinding,
} from "@sallyport/wire";
import { type DynamicCosts, MAX_STATIC_COST } from "../circuits/costs.ts";
import { peerDataProblem } from "../circuits/peer-data.ts";
import type { EmitEvent } from "../fabric-events.ts";
import {
  DenialCode,
  type FabricModel,
  isDenial,
  type SessionGrant,
  type TerminatorOutcome,
  type TerminatorRecord,
} from "../ports.ts";
import {
  EdgeRefusal,
  FabricRefusal,
  failureLevel,
  reply,
  retryHintOf,
  serveEdgeRequest,
  serveFabricRequest,
  serveNotice,
} from "../requests.ts";
import { onMessage } from "../routers/inbound.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import type { TerminatorValidation } from "./terminator-validation.ts";

const { CreateTerminatorResult } = edgeCtrlPb;

const SESSION_GONE: ReadonlySet<DenialCode> = new Set([DenialCode.InvalidSession, DenialCode.InvalidApiSession]);

/** Longest text, in characters, and longest secret, in bytes, of a terminator. */
const MAX_FIELD_LENGTH = 4_096;

interface TerminatorMessagesParts {
  readonly model: Pick<
    FabricModel,
    | "authorizeBind"
    | "authorizeTunnel"
    | "findTerminator"
    | "createTerminator"
    | "updateTerminator"
    | "deleteTerminators"
  >;
  readonly validation: TerminatorValidation;
  readonly costs: DynamicCosts;
  readonly emit: EmitEvent;
  readonly log: Logger;
}

interface BindRequest {
  readonly sessionToken: string;
  readonly apiSessionToken: string;
  readonly peerData: { readonly [key: number]: Uint8Array };
  readonly cost: number;
  readonly precedence: number;
  readonly instanceId: string;
  readonly instanceSecret: Uint8Array;
}

/** How the creation of a terminator is answered. The last two are for routers of OpenZiti 2.x; 0: none. */
interface CreationResult {
  readonly result: edgeCtrlPb.CreateTerminatorResult;
  readonly msg: string;
  readonly errorCode: number;
  readonly retryHint: RetryHint;
}

/** A change of cost or precedence, as the three update messages have it. */
interface TerminatorChange {
  readonly cost: number;
  readonly precedence: number;
  readonly updateCost: boolean;
  readonly updatePrecedence: boolean;
}

/** What routers ask about terminators. Source: docs/protocol/fabric.md, "Terminators". */
export class TerminatorMessages {
  readonly #parts: TerminatorMessagesParts;

  constructor(parts: TerminatorMessagesParts) {
    this.#parts = parts;
  }

  attach(router: RouterConnection): void {
    this.#attachEdge(router);
    this.#attachFabric(router);
  }

  #attachEdge(router: RouterConnection): void {
    const lane = router.orderedLane;
    onMessage(
      router,
      EdgeCtrlType.CreateTerminatorV2Request,
      edgeCtrlPb.CreateTerminatorV2RequestSchema,
      (body, message) => this.#createV2(router, body, message),
    );
    onMessage(router, EdgeCtrlType.CreateTerminatorRequest, edgeCtrlPb.CreateTerminatorRequestSchema, (body, message) =>
      serveEdgeRequest(router, lane, message, async () => {
        const outcome = await this.#bind(router, body, { address: `hosted:${body.sessionToken}` });
        if (!("terminator" in outcome)) throw new EdgeRefusal(DenialCode.Internal, outcome.message);
        return { contentType: EdgeCtrlType.CreateTerminatorResponse, body: Buffer.from(outcome.terminator.id) };
      }),
    );
    onMessage(router, EdgeCtrlType.UpdateTerminatorRequest, edgeCtrlPb.UpdateTerminatorRequestSchema, (body, message) =>
      serveEdgeRequest(router, lane, message, async () => {
        await this.#authorizeBind(router, body);
        await this.ownedBy(router, body.terminatorId, RouterBinding.Edge);
        await this.change(body.terminatorId, body);
        return { contentType: EdgeCtrlType.UpdateTerminatorResponse };
      }),
    );
    onMessage(router, EdgeCtrlType.RemoveTerminatorRequest, edgeCtrlPb.RemoveTerminatorRequestSchema, (body, message) =>
      serveEdgeRequest(router, lane, message, async () => {
        await this.ownedBy(router, body.terminatorId, RouterBinding.Edge);
        await this.remove(router, [body.terminatorId]);
        return { contentType: EdgeCtrlType.RemoveTerminatorResponse };
      }),
    );
    onMessage(router, EdgeCtrlType.HealthEvent, edgeCtrlPb.HealthEventRequestSchema, (body, message) => {
      const { terminatorId: id, checkPassed: hasPassed } = body;
      this.checked(router, message, { id, binding: RouterBinding.Edge, hasPassed });
    });
  }

  #attachFabric(router: RouterConnection): void {
    const lane = router.orderedLane;
    onMessage(router, ControlType.CreateTerminatorRequest, ctrlPb.CreateTerminatorRequestSchema, (body, message) =>
      serveFabricRequest(router, lane, message, () => this.#createPlain(router, body)),
    );
    onMessage(router, ControlType.UpdateTerminatorRequest, ctrlPb.UpdateTerminatorRequestSchema, (body, message) =>
      serveFabricRequest(router, lane, message, async () => {
        await this.#ownedByOrRefuse(router, body.terminatorId);
        try {
          await this.change(body.terminatorId, body);
        } catch (error) {
          throw error instanceof EdgeRefusal ? new FabricRefusal(error.message) : error;
        }
        return "terminator updated";
      }),
    );
    onMessage(router, ControlType.RemoveTerminatorRequest, ctrlPb.RemoveTerminatorRequestSchema, (body, message) =>
      serveFabricRequest(router, lane, message, async () => {
        await this.#ownedByOrRefuse(router, body.terminatorId);
        await this.remove(router, [body.terminatorId]);
        return "terminator removed";
      }),
    );
    onMessage(router, ControlType.RemoveTerminatorsRequest, ctrlPb.RemoveTerminatorsRequestSchema, (body, message) =>
      serveFabricRequest(router, lane, message, async () => {
        await this.remove(router, body.terminatorIds);
        return "terminators removed";
      }),
    );
  }

  /** @throws EdgeRefusal when the router has no such terminator of this binding */
  async ownedBy(router: RouterConnection, id: string, binding: string): Promise<TerminatorRecord> {
    const terminator = await this.#parts.model.findTerminator(id);
    if (terminator === undefined || terminator.routerId !== router.id || terminator.binding !== binding) {
      throw new EdgeRefusal(DenialCode.InvalidTerminator);
    }
    return terminator;
  }

  /** @throws EdgeRefusal for a cost or precedence out of range, and when the terminator is gone */
  async change(id: string, change: TerminatorChange): Promise<void> {
    if (!change.updateCost && !change.updatePrecedence) return;
    const isUpdated = await this.#parts.model.updateTerminator(id, {
      ...(change.updateCost ? { cost: validCost(change.cost) } : {}),
      ...(change.updatePrecedence ? { precedence: validPrecedence(change.precedence) } : {}),
    });
    if (!isUpdated) throw new EdgeRefusal(DenialCode.InvalidTerminator);
  }

  /** Removes those of the ids that are the router's own. */
  async remove(router: RouterConnection, ids: readonly string[]): Promise<void> {
    const removed = await this.#parts.model.deleteTerminators(router.id, ids);
    for (const id of removed) {
      this.#parts.costs.forget(id);
      this.#parts.validation.removed(id);
    }
  }

  /** A host reports the result of a health check. It has no answer and changes nothing: the host asks for a change of cost or precedence by itself. */
  checked(
    router: RouterConnection,
    message: Message,
    check: { readonly id: string; readonly binding: string; readonly hasPassed: boolean },
  ): void {
    const { log, emit } = this.#parts;
    serveNotice(router, router.orderedLane, message, async () => {
      const { id: terminatorId, binding, hasPassed } = check;
      try {
        const { serviceId } = await this.ownedBy(router, terminatorId, binding);
        emit({ kind: "health-check", routerId: router.id, serviceId, terminatorId, hasPassed });
      } catch (error) {
        if (!(error instanceof EdgeRefusal)) throw error;
        const fields = { routerId: router.id, terminatorId };
        log.debug(fields, "a health check of a terminator that the router does not have");
      }
    });
  }

  /**
   * Stores a terminator of `router` and has it validated later.
   * @throws EdgeRefusal for a cost or precedence out of range, and when the host has just lost the right to host
   */
  async create(
    router: RouterConnection,
    request: Omit<BindRequest, "sessionToken" | "apiSessionToken"> & {
      readonly id?: string | undefined;
      readonly address: string;
      readonly binding: string;
      readonly serviceId: string;
      readonly hostId: string;
    },
  ): Promise<TerminatorOutcome> {
    const peerData = byteMap(request.peerData);
    const problem = peerDataProblem(peerData) ?? lengthProblem(request);
    if (problem !== undefined) throw new EdgeRefusal(DenialCode.Internal, problem);
    const { id, serviceId, hostId, binding, address, instanceId, instanceSecret } = request;
    const outcome = await this.#parts.model.createTerminator({
      ...{ id, serviceId, hostId, routerId: router.id, binding, address, instanceId, peerData },
      ...(instanceSecret.length > 0 && { instanceSecret }),
      cost: validCost(request.cost),
      precedence: validPrecedence(request.precedence),
    });
    if (outcome.outcome === "denied") throw new EdgeRefusal(DenialCode.AccessDenied, outcome.message);
    if (outcome.outcome === "created") this.#parts.validation.created(router, outcome.terminator);
    return outcome;
  }

  #createV2(router: RouterConnection, body: edgeCtrlPb.CreateTerminatorV2Request, message: Message): void {
    const { address } = body;
    const { FailedInvalidSession, FailedOther } = CreateTerminatorResult;
    this.serveCreation(router, message, address, {
      work: () => this.#bind(router, body, { id: address, address }),
      refused: (code) => (SESSION_GONE.has(code) ? FailedInvalidSession : FailedOther),
      answer: (result) => ({
        contentType: EdgeCtrlType.CreateTerminatorV2Response,
        body: encodeControl(edgeCtrlPb.CreateTerminatorV2ResponseSchema, { ...result, terminatorId: address }),
      }),
    });
  }

  /**
   * Works on a request that always gets its own response type, refused or not: what the router does next depends on the result in it.
   * @param request `refused`: the result for a refusal by its code
   */
  serveCreation(
    router: RouterConnection,
    message: Message,
    address: string,
    request: {
      readonly work: () => Promise<TerminatorOutcome>;
      readonly refused: (code: DenialCode) => edgeCtrlPb.CreateTerminatorResult;
      readonly answer: (result: CreationResult) => Outgoing;
    },
  ): void {
    const { log } = this.#parts;
    const { FailedBusy, FailedOther } = CreateTerminatorResult;
    const answer = (result: CreationResult): void => reply(router, message, request.answer(result));
    const refuse = (result: edgeCtrlPb.CreateTerminatorResult, refusal: EdgeRefusal): void => {
      const { code: errorCode, message: msg } = refusal;
      // What the router is to try again must not look final to its application.
      const retryHint = result === FailedBusy ? RetryHint.TooBusy : refusal.retryHint;
      answer({ result, msg, errorCode, retryHint });
    };
    const isTaken = router.orderedLane.offer(async () => {
      if (address.trim() === "") {
        refuse(FailedOther, new EdgeRefusal(DenialCode.InvalidTerminator, "the terminator has no address"));
        return;
      }
      try {
        answer(creationResult(await request.work()));
      } catch (err) {
        if (err instanceof EdgeRefusal) {
          log.info({ routerId: router.id, code: err.code, reason: err.message }, "a terminator was refused");
          refuse(request.refused(err.code), err);
        } else {
          log[failureLevel(err)](
            { routerId: router.id, err },
            "a terminator could not be stored; the router will try again",
          );
          refuse(FailedBusy, EdgeRefusal.ofFailure(err));
        }
      }
    }, message.body.length);
    if (!isTaken) refuse(FailedBusy, EdgeRefusal.busy());
  }

  async #bind(
    router: RouterConnection,
    request: BindRequest,
    target: { readonly id?: string; readonly address: string },
  ): Promise<TerminatorOutcome> {
    const grant = await this.#authorizeBind(router, request);
    const { peerData, cost, precedence, instanceId, instanceSecret } = request;
    return this.create(router, {
      ...{ ...target, binding: RouterBinding.Edge, serviceId: grant.service.id, hostId: grant.identityId },
      ...{ peerData, cost, precedence, instanceId, instanceSecret },
    });
  }

  async #authorizeBind(
    router: RouterConnection,
    claim: { readonly sessionToken: string; readonly apiSessionToken: string },
  ): Promise<SessionGrant> {
    const { sessionToken, apiSessionToken } = claim;
    const { id: routerId, checksPosture } = router;
    const grant = await this.#parts.model.authorizeBind({ sessionToken, apiSessionToken, routerId, checksPosture });
    if (isDenial(grant)) throw EdgeRefusal.of(grant);
    return grant;
  }

  async #createPlain(router: RouterConnection, body: ctrlPb.CreateTerminatorRequest): Promise<string> {
    // As with plain circuits: the router acts for its own identity, and may host what that may.
    const claim = { routerId: router.id, service: { id: body.serviceId }, type: "Bind" } as const;
    const grant = await this.#parts.model.authorizeTunnel(claim);
    if (isDenial(grant)) throw new FabricRefusal(EdgeRefusal.of(grant).message);
    try {
      const { service, identityId: hostId } = grant;
      const outcome = await this.create(router, { ...body, serviceId: service.id, hostId });
      if (!("terminator" in outcome)) throw new FabricRefusal(outcome.message);
      return outcome.terminator.id;
    } catch (error) {
      throw error instanceof EdgeRefusal ? new FabricRefusal(error.message) : error;
    }
  }

  async #ownedByOrRefuse(router: RouterConnection, id: string): Promise<void> {
    const terminator = await this.#parts.model.findTerminator(id);
    if (terminator === undefined) throw new FabricRefusal(`terminator ${id} does not exist`);
    if (terminator.routerId !== router.id) throw new FabricRefusal("terminator not owned by requesting router");
  }
}

/** What a router has stored is bounded, and goes into messages to other routers. */
function lengthProblem(
  request: Pick<BindRequest, "instanceId" | "instanceSecret"> & { address: string; binding: string },
) {
  const lengths = [
    ["address", request.address.length],
    ["binding", request.binding.length],
    ["instance id", request.instanceId.length],
    ["instance secret", request.instanceSecret.length],
  ] as const;
  const [tooLong] = lengths.filter(([, length]) => length > MAX_FIELD_LENGTH);
  if (tooLong === undefined) return undefined;
  return `the terminator's ${tooLong[0]} has a length of ${tooLong[1]}; at most ${MAX_FIELD_LENGTH} are stored`;
}

function validCost(cost: number): number {
  if (cost <= MAX_STATIC_COST) return cost;
  const message = `invalid cost ${cost}. cost must be between 0 and ${MAX_STATIC_COST} inclusive`;
  throw new EdgeRefusal(DenialCode.InvalidCost, message);
}

function validPrecedence(value: number): PrecedenceName {
  const precedence = precedenceName(value);
  if (precedence === undefined) throw new EdgeRefusal(DenialCode.InvalidPrecedence, `invalid precedence: ${value}`);
  return precedence;
}

/** What an answer says of a terminator that was stored, or not. */
function creationResult(outcome: TerminatorOutcome): CreationResult {
  if ("terminator" in outcome) return { result: CreateTerminatorResult.Success, msg: "", errorCode: 0, retryHint: 0 };
  const isConflict = outcome.outcome === "conflict";
  const result = isConflict ? CreateTerminatorResult.FailedIdConflict : CreateTerminatorResult.FailedOther;
  const errorCode = isConflict ? DenialCode.InvalidTerminator : DenialCode.Internal;
  return { result, msg: outcome.message, errorCode, retryHint: retryHintOf(errorCode) };
}
