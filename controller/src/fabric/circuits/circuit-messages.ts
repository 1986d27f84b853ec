import {
  byteMap,
  ControlHeader,
  ControlType,
  CreateCircuitHeader,
  ctrlPb,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  Headers,
  type Logger,
  type Message,
  type Outgoing,
  PeerData as PeerDataKey,
  ProtocolError,
} from "@sallyport/wire";
import type { EmitEvent } from "../fabric-events.ts";
import { DenialCode, type FabricModel, isDenial, type SessionGrant } from "../ports.ts";
import { EdgeRefusal, edgeError, failureLevel, reply, serveCircuitRequest } from "../requests.ts";
import { onMessage, onRawMessage, read } from "../routers/inbound.ts";
import type { RouterConnection } from "../routers/router-connection.ts";
import type { StoreWait } from "../waiting/store-wait.ts";
import type { Circuit, CircuitGrant } from "./circuit.ts";
import type { CircuitAccess } from "./circuit-access.ts";
import { type CircuitBuilder, CircuitError, type CircuitRequest } from "./circuit-builder.ts";
import type { CircuitRegistry } from "./circuit-registry.ts";
import { type PeerData, withDialer } from "./peer-data.ts";
import type { RouteExchange } from "./route-exchange.ts";

interface CircuitMessagesParts {
  readonly model: Pick<FabricModel, "authorizeDial" | "authorizeService" | "authorizeTunnel">;
  readonly builder: CircuitBuilder;
  readonly circuits: CircuitRegistry;
  readonly access: CircuitAccess;
  readonly exchange: RouteExchange;
  readonly storeWait: StoreWait;
  readonly emit: EmitEvent;
  readonly log: Logger;
}

/** What an application dials with. */
interface Dial {
  readonly apiSessionToken: string;
  readonly instanceId: string;
  readonly peerData: PeerData;
}

interface SessionDial extends Dial {
  readonly sessionToken: string;
}

/** Without a session: the access token says who dials, and the router which service. */
interface ServiceDial extends Dial {
  readonly identityId: string;
  readonly serviceId: string;
}

/** Longest id of a service, an identity or an instance that a request by headers may have, in characters. */
const MAX_ID_LENGTH = 4_096;

/** What routers ask about circuits. Source: docs/protocol/fabric.md, "Circuits". */
export class CircuitMessages {
  readonly #parts: CircuitMessagesParts;

  constructor(parts: CircuitMessagesParts) {
    this.#parts = parts;
  }

  attach(router: RouterConnection): void {
    const { exchange } = this.#parts;
    this.#onHeaders(router, EdgeCtrlType.CreateCircuitV2Request, dialOfHeaders, async (dial, requestedAt) =>
      circuitV2(await this.#dial(router, dial, requestedAt)),
    );
    this.#onHeaders(router, EdgeCtrlType.CreateCircuitV3Request, serviceDialOfHeaders, async (dial, requestedAt) =>
      circuitV2(await this.#dialService(router, dial, requestedAt), EdgeCtrlType.CreateCircuitV3Response),
    );
    onMessage(router, EdgeCtrlType.CreateCircuitRequest, edgeCtrlPb.CreateCircuitRequestSchema, (body, message) => {
      const dial: SessionDial = {
        sessionToken: body.sessionToken,
        apiSessionToken: body.apiSessionToken,
        instanceId: body.terminatorInstanceId,
        peerData: byteMap(body.peerData),
      };
      serveCircuitRequest(router, message, async (requestedAt) =>
        circuitV1(await this.#dial(router, dial, requestedAt)),
      );
    });
    onMessage(router, ControlType.CircuitRequest, ctrlPb.CircuitRequestSchema, (body, message) =>
      this.#plainRequest(router, body, message),
    );
    onRawMessage(router, ControlType.RouteResult, (message) => exchange.handleResult(router, message));
  }

  /**
   * Makes a circuit from `router`, with the rules of encryption: a service that requires it needs a public key from both sides.
   * @throws EdgeRefusal
   */
  async dial(router: RouterConnection, request: Omit<CircuitRequest, "ingressRouterId">): Promise<Circuit> {
    const { builder, circuits, emit } = this.#parts;
    const { encryptionRequired } = request.service;
    const peerData = withDialer(request.peerData, request.clientId);
    const unencrypted = (end: "initiator" | "terminator", circuitId?: string) => {
      const message = `encryption required on service, ${end} did not send public key`;
      const { service, clientId } = request;
      emit({ kind: "encryption-missing", serviceId: service.id, clientId, ingressRouterId: router.id, message });
      return new EdgeRefusal(DenialCode.EncryptionDataMissing, message, circuitId);
    };
    if (encryptionRequired && !peerData.has(PeerDataKey.PublicKey)) throw unencrypted("initiator");
    let circuit: Circuit;
    try {
      circuit = await builder.create({ ...request, peerData, ingressRouterId: router.id });
    } catch (error) {
      if (error instanceof CircuitError) throw new EdgeRefusal(DenialCode.Internal, error.message, error.circuitId);
      throw error;
    }
    if (encryptionRequired && !circuit.peerData.has(PeerDataKey.PublicKey)) {
      circuits.end(circuit.id, true, "the terminating side sent no public key");
      throw unencrypted("terminator", circuit.id);
    }
    if (router.channel.isClosed) circuits.end(circuit.id, true, "the initiating router is gone");
    return circuit;
  }

  /** Serves requests that are headers only. Their senders wait for an answer: what cannot be read has one, too. */
  #onHeaders<D>(
    router: RouterConnection,
    contentType: number,
    readDial: (headers: Headers) => D,
    work: (dial: D, requestedAt: number) => Promise<Outgoing>,
  ): void {
    onRawMessage(router, contentType, (message) => {
      const dial = read(router, message, () => readDial(message.headers));
      if (dial === undefined) {
        reply(router, message, edgeError(new EdgeRefusal(DenialCode.Internal, "malformed circuit request")));
        return;
      }
      serveCircuitRequest(router, message, (requestedAt) => work(dial, requestedAt));
    });
  }

  async #dialService(router: RouterConnection, dial: ServiceDial, requestedAt: number): Promise<Circuit> {
    const { model, access, storeWait } = this.#parts;
    const { serviceId, identityId, apiSessionToken, instanceId, peerData } = dial;
    if (apiSessionToken === "") throw new EdgeRefusal(DenialCode.InvalidApiSession);
    const { id: routerId, checksPosture } = router;
    const claim = { serviceId, identityId, apiSessionToken, routerId, checksPosture };
    return access.whileTokenCounts(apiSessionToken, async () => {
      const answer = await storeWait.ask(routerId, () => model.authorizeService(claim));
      if (isDenial(answer)) throw EdgeRefusal.of(answer);
      // The token proves whose circuit it is; a router that says otherwise is wrong, or not what it should be.
      if (answer.identityId !== identityId) throw new EdgeRefusal(DenialCode.InvalidApiSession);
      const { service, identityId: clientId } = answer;
      const grant = grantOf(answer);
      return this.dial(router, { service, clientId, grant, instanceId, peerData, requestedAt });
    });
  }

  async #dial(router: RouterConnection, dial: SessionDial, requestedAt: number): Promise<Circuit> {
    if (dial.sessionToken === "") throw new EdgeRefusal(DenialCode.InvalidSession);
    const { sessionToken, apiSessionToken, instanceId, peerData } = dial;
    const { model, access, storeWait } = this.#parts;
    return access.whileSessionLasts(dial, async () => {
      const { id: routerId, checksPosture } = router;
      const claim = { sessionToken, apiSessionToken, routerId, checksPosture };
      const answer = await storeWait.ask(routerId, () => model.authorizeDial(claim));
      if (isDenial(answer)) throw EdgeRefusal.of(answer);
      const { service, identityId: clientId } = answer;
      const grant = grantOf(answer);
      return this.dial(router, { service, clientId, grant, instanceId, peerData, requestedAt });
    });
  }

  /**
   * A plain listener, which knows no identities of its own, asks for a circuit: it acts for the identity of its router, and gets what that may dial. A router
   * without one gets nothing.
   */
  #plainRequest(router: RouterConnection, body: ctrlPb.CircuitRequest, message: Message): void {
    const { model, access, storeWait, log } = this.#parts;
    const at = body.service.indexOf("@");
    const instanceId = at < 0 ? "" : body.service.slice(0, at);
    const name = body.service.slice(at + 1);
    const requestedAt = performance.now();
    const answer = (out: Outgoing) => reply(router, message, out, router.wayOf(requestedAt));
    const fail = (text: string) => answer({ contentType: ControlType.CircuitFailed, body: Buffer.from(text, "utf8") });
    const isTaken = router.parallelLane.offer(async () => {
      try {
        const circuit = await access.whileAllowed(async () => {
          const claim = { routerId: router.id, service: { name }, type: "Dial" } as const;
          const grant = await storeWait.ask(router.id, () => model.authorizeTunnel(claim));
          if (isDenial(grant)) throw EdgeRefusal.of(grant);
          const { service, identityId: clientId } = grant;
          const peerData = byteMap(body.peerData);
          const request = { service, clientId, instanceId, peerData, requestedAt };
          return this.dial(router, { ...request, grant: { kind: "identity" } });
        });
        const headers = new Headers();
        for (const [key, value] of circuit.peerData) headers.set(key, value);
        headers.setString(ControlHeader.CircuitSuccessAddress, circuit.route.ingressId);
        answer({ contentType: ControlType.CircuitSuccess, headers, body: Buffer.from(circuit.id) });
      } catch (error) {
        const isRefusal = error instanceof EdgeRefusal;
        log[isRefusal ? "debug" : failureLevel(error)]({ routerId: router.id, err: error }, "a circuit request failed");
        fail(isRefusal ? error.message : EdgeRefusal.ofFailure(error).message);
      }
    }, message.body.length);
    if (!isTaken) fail("server too busy");
  }
}

/** What the circuit lasts as long as. */
function grantOf({ kind, sessionId, apiSessionId, identityId, tokenIssuedAt }: SessionGrant): CircuitGrant {
  if (kind === "session") return { kind, sessionId };
  // Without its time, every revocation of the identity ends the circuit.
  return { kind, apiSessionId, identityId, issuedAt: tokenIssuedAt ?? new Date(0) };
}

/** @throws ProtocolError */
function dialOfHeaders(headers: Headers): SessionDial {
  return {
    sessionToken: headers.getString(CreateCircuitHeader.SessionToken) ?? "",
    apiSessionToken: headers.getString(CreateCircuitHeader.ApiSessionToken) ?? "",
    instanceId: headers.getString(CreateCircuitHeader.TerminatorInstanceId) ?? "",
    peerData: headers.getU32Map(CreateCircuitHeader.PeerData) ?? new Map(),
  };
}

/** The id that a router may propose for the circuit is left aside: the answer names the circuit. @throws ProtocolError */
function serviceDialOfHeaders(headers: Headers): ServiceDial {
  const id = (key: number): string => {
    const text = headers.getString(key) ?? "";
    if (text.length <= MAX_ID_LENGTH) return text;
    throw new ProtocolError(
      "BAD_HEADER_VALUE",
      `header ${key} has ${text.length} characters, at most ${MAX_ID_LENGTH} are taken`,
    );
  };
  return {
    identityId: id(CreateCircuitHeader.IdentityId),
    serviceId: id(CreateCircuitHeader.ServiceId),
    apiSessionToken: headers.getString(CreateCircuitHeader.ApiSessionToken) ?? "",
    instanceId: id(CreateCircuitHeader.TerminatorInstanceId),
    peerData: headers.getU32Map(CreateCircuitHeader.PeerData) ?? new Map(),
  };
}

/** The answer to a circuit request: headers only. That of the third generation differs in its type alone. */
export function circuitV2(
  circuit: Pick<Circuit, "id" | "route" | "peerData" | "tags">,
  contentType: number = EdgeCtrlType.CreateCircuitV2Response,
): Outgoing {
  const headers = new Headers()
    .setString(CreateCircuitHeader.ResponseCircuitId, circuit.id)
    .setString(CreateCircuitHeader.ResponseAddress, circuit.route.ingressId)
    .setU32Map(CreateCircuitHeader.PeerData, circuit.peerData)
    .setStringMap(CreateCircuitHeader.ResponseTags, new Map(Object.entries(circuit.tags)));
  return { contentType, headers };
}

function circuitV1(circuit: Circuit): Outgoing {
  const body = encodeControl(edgeCtrlPb.CreateCircuitResponseSchema, circuitFields(circuit));
  return { contentType: EdgeCtrlType.CreateCircuitResponse, body };
}

/** A circuit as answers with a body name it. */
export function circuitFields({ id, route, peerData, tags }: Circuit) {
  return { circuitId: id, address: route.ingressId, peerData: Object.fromEntries(peerData), tags: { ...tags } };
}
