import {
  byteMap,
  EdgeCtrlHeader,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  type Logger,
  MAX_SERVICE_LIST_MARK,
  type Message,
  type Permission,
  precedenceOf,
  RouterBinding,
} from "@sallyport/wire";
import type { CircuitAccess } from "./circuits/circuit-access.ts";
import { type CircuitMessages, circuitFields } from "./circuits/circuit-messages.ts";
import {
  DenialCode,
  type FabricModel,
  isDenial,
  type TerminatorOutcome,
  type TunnelApiSession,
  type TunnelClaim,
  type TunnelGrant,
  type TunnelService,
  type TunnelSessionGrant,
} from "./ports.ts";
import { EdgeRefusal, serveCircuitRequest, serveEdgeRequest, serveNotice } from "./requests.ts";
import { onMessage, onRawMessage, read } from "./routers/inbound.ts";
import type { RouterConnection } from "./routers/router-connection.ts";
import type { TerminatorMessages } from "./terminators/terminator-messages.ts";
import type { StoreWait } from "./waiting/store-wait.ts";

/** Refusals of a terminator that trying again cannot change. */
const FINAL_REFUSALS: ReadonlySet<DenialCode> = new Set([
  DenialCode.Internal,
  DenialCode.InvalidCost,
  DenialCode.InvalidPrecedence,
]);

interface TunnelMessagesParts {
  readonly model: Pick<
    FabricModel,
    "openTunnelApiSession" | "tunnelServices" | "openTunnelSession" | "authorizeTunnel"
  >;
  readonly circuits: CircuitMessages;
  readonly access: CircuitAccess;
  readonly storeWait: StoreWait;
  readonly terminators: TerminatorMessages;
  readonly log: Logger;
}

/**
 * A router that is itself a tunneler: it acts for the identity with its own id, through API session and sessions (protocol version 1), or without any when it
 * has the data model (version 2). Source: docs/protocol/fabric.md, "Tunneling routers".
 */
export class TunnelMessages {
  readonly #parts: TunnelMessagesParts;

  constructor(parts: TunnelMessagesParts) {
    this.#parts = parts;
  }

  attach(router: RouterConnection): void {
    const { terminators } = this.#parts;
    const lane = router.orderedLane;
    onMessage(router, EdgeCtrlType.CreateApiSessionRequest, edgeCtrlPb.CreateApiSessionRequestSchema, (body, message) =>
      serveEdgeRequest(router, lane, message, async () => ({
        contentType: EdgeCtrlType.CreateApiSessionResponse,
        body: encodeControl(edgeCtrlPb.CreateApiSessionResponseSchema, await this.#openApiSession(router, body)),
      })),
    );
    onMessage(
      router,
      EdgeCtrlType.CreateCircuitForServiceRequest,
      edgeCtrlPb.CreateCircuitForServiceRequestSchema,
      (body, message) => this.#dial(router, body, message),
    );
    onRawMessage(router, EdgeCtrlType.ListServicesRequest, (message) => this.#listServices(router, message));
    onMessage(
      router,
      EdgeCtrlType.CreateTunnelTerminatorRequest,
      edgeCtrlPb.CreateTunnelTerminatorRequestSchema,
      (body, message) => this.#host(router, body, message),
    );
    onMessage(
      router,
      EdgeCtrlType.UpdateTunnelTerminatorRequest,
      edgeCtrlPb.UpdateTunnelTerminatorRequestSchema,
      (body, message) =>
        serveEdgeRequest(router, lane, message, async () => {
          await terminators.ownedBy(router, body.terminatorId, RouterBinding.Tunnel);
          await terminators.change(body.terminatorId, body);
          return { contentType: EdgeCtrlType.UpdateTunnelTerminatorResponse };
        }),
    );
    onRawMessage(router, EdgeCtrlType.RemoveTunnelTerminatorRequest, (message) =>
      serveEdgeRequest(router, lane, message, async () => {
        const id = message.body.toString("utf8");
        await terminators.ownedBy(router, id, RouterBinding.Tunnel);
        await terminators.remove(router, [id]);
        return { contentType: EdgeCtrlType.RemoveTunnelTerminatorResponse };
      }),
    );
    onMessage(
      router,
      EdgeCtrlType.CreateTunnelCircuitV2Request,
      edgeCtrlPb.CreateTunnelCircuitV2RequestSchema,
      (body, message) => this.#dialV2(router, body, message),
    );
    onMessage(
      router,
      EdgeCtrlType.CreateTunnelTerminatorV2Request,
      edgeCtrlPb.CreateTunnelTerminatorV2RequestSchema,
      (body, message) => this.#hostV2(router, body, message),
    );
    onRawMessage(router, EdgeCtrlType.TunnelHealthEvent, (message) => {
      const { headers } = message;
      const check = read(router, message, () => ({
        id: headers.getString(EdgeCtrlHeader.TerminatorId) ?? "",
        binding: RouterBinding.Tunnel,
        hasPassed: headers.getBool(EdgeCtrlHeader.CheckPassed) === true,
      }));
      if (check !== undefined) terminators.checked(router, message, check);
    });
  }

  async #openApiSession(router: RouterConnection, body: edgeCtrlPb.CreateApiSessionRequest) {
    const session = await this.#parts.model.openTunnelApiSession(router.id, {
      envInfo: textsOf(body.envInfo, ["arch", "os", "osRelease", "osVersion", "hostname", "domain"]),
      sdkInfo: textsOf(body.sdkInfo, ["appId", "appVersion", "branch", "revision", "type", "version"]),
      configTypes: body.configTypes.length === 0 ? ["all"] : body.configTypes,
      remoteAddress: router.channel.peer.address,
    });
    if (isDenial(session)) throw EdgeRefusal.of(session);
    return apiSessionFields(session);
  }

  #dial(router: RouterConnection, body: edgeCtrlPb.CreateCircuitForServiceRequest, message: Message): void {
    serveCircuitRequest(router, message, async (requestedAt) => {
      const { service, identityId: clientId, ...session } = await this.#openSession(router, body, "Dial");
      const { circuits, access } = this.#parts;
      const grant = { kind: "session", sessionId: session.sessionId } as const;
      const { terminatorInstanceId: instanceId } = body;
      const peerData = byteMap(body.peerData);
      const circuit = await access.whileSessionLasts(session, () =>
        circuits.dial(router, { service, clientId, grant, instanceId, peerData, requestedAt }),
      );
      return {
        contentType: EdgeCtrlType.CreateCircuitForServiceResponse,
        body: encodeControl(edgeCtrlPb.CreateCircuitForServiceResponseSchema, {
          ...sessionFields(session),
          ...circuitFields(circuit),
        }),
      };
    });
  }

  #host(router: RouterConnection, body: edgeCtrlPb.CreateTunnelTerminatorRequest, message: Message): void {
    serveEdgeRequest(router, router.orderedLane, message, async () => {
      if (body.address.trim() === "") throw new EdgeRefusal(DenialCode.Internal, "the terminator has no address");
      const { service, identityId, ...session } = await this.#openSession(router, body, "Bind");
      const outcome = await this.#createTerminator(router, body, { service, identityId });
      if (!("terminator" in outcome)) throw new EdgeRefusal(DenialCode.Internal, outcome.message);
      return {
        contentType: EdgeCtrlType.CreateTunnelTerminatorResponse,
        body: encodeControl(edgeCtrlPb.CreateTunnelTerminatorResponseSchema, {
          ...sessionFields(session),
          terminatorId: outcome.terminator.id,
          startTime: body.startTime,
        }),
      };
    });
  }

  #createTerminator(
    router: RouterConnection,
    body: edgeCtrlPb.CreateTunnelTerminatorRequest | edgeCtrlPb.CreateTunnelTerminatorV2Request,
    { service, identityId: hostId }: TunnelGrant,
  ): Promise<TerminatorOutcome> {
    const { peerData, cost, precedence, instanceId, instanceSecret, address } = body;
    return this.#parts.terminators.create(router, {
      ...{ id: address, address, binding: RouterBinding.Tunnel, serviceId: service.id, hostId },
      ...{ peerData, cost, precedence, instanceId, instanceSecret },
    });
  }

  /** As {@link TunnelMessages.#dial} without a session: the policy itself is asked. */
  #dialV2(router: RouterConnection, body: edgeCtrlPb.CreateTunnelCircuitV2Request, message: Message): void {
    serveCircuitRequest(router, message, async (requestedAt) => {
      const { circuits, access, storeWait } = this.#parts;
      const { serviceName: name, terminatorInstanceId: instanceId } = body;
      const circuit = await access.whileAllowed(async () => {
        const claim = { routerId: router.id, service: { name }, type: "Dial" } as const;
        const { service, identityId: clientId } = await storeWait.ask(router.id, () => this.#authorize(claim));
        const peerData = byteMap(body.peerData);
        const request = { service, clientId, instanceId, peerData, requestedAt };
        return circuits.dial(router, { ...request, grant: { kind: "identity" } });
      });
      return {
        contentType: EdgeCtrlType.CreateTunnelCircuitV2Response,
        body: encodeControl(edgeCtrlPb.CreateTunnelCircuitV2ResponseSchema, circuitFields(circuit)),
      };
    });
  }

  /** What a later change of policy may allow is answered as busy: the router tries again. */
  #hostV2(router: RouterConnection, body: edgeCtrlPb.CreateTunnelTerminatorV2Request, message: Message): void {
    const { address: terminatorId, startTime, serviceId } = body;
    const { FailedBusy, FailedOther } = edgeCtrlPb.CreateTerminatorResult;
    const claim = { routerId: router.id, service: { id: serviceId }, type: "Bind" } as const;
    this.#parts.terminators.serveCreation(router, message, terminatorId, {
      work: async () => this.#createTerminator(router, body, await this.#authorize(claim)),
      refused: (code) => (FINAL_REFUSALS.has(code) ? FailedOther : FailedBusy),
      answer: (result) => ({
        contentType: EdgeCtrlType.CreateTunnelTerminatorV2Response,
        body: encodeControl(edgeCtrlPb.CreateTunnelTerminatorV2ResponseSchema, { ...result, terminatorId, startTime }),
      }),
    });
  }

  /** The answer is a message of its own, and only comes when something has changed since the mark the router gives back. */
  #listServices(router: RouterConnection, message: Message): void {
    const { length } = message.body;
    if (length > MAX_SERVICE_LIST_MARK) {
      const problem = `a list mark of ${length} bytes, at most ${MAX_SERVICE_LIST_MARK} are allowed`;
      router.channel.close(new Error(`router ${router.id} sent ${problem}`));
      return;
    }
    serveNotice(router, router.orderedLane, message, async () => {
      const list = await this.#parts.model.tunnelServices(router.id, message.body.toString("utf8"));
      if (list === undefined) return;
      if (isDenial(list)) {
        const fields = { routerId: router.id, code: list.denied };
        this.#parts.log.warn(fields, "a router may not list services for its tunneler");
        return;
      }
      const body = encodeControl(edgeCtrlPb.ServicesListSchema, {
        lastUpdate: Buffer.from(list.lastUpdate, "utf8"),
        services: list.services.map(serviceFields),
      });
      router.send({ contentType: EdgeCtrlType.ServicesList, body });
    });
  }

  async #authorize(claim: TunnelClaim): Promise<TunnelGrant> {
    const grant = await this.#parts.model.authorizeTunnel(claim);
    if (isDenial(grant)) throw EdgeRefusal.of(grant);
    return grant;
  }

  async #openSession(
    router: RouterConnection,
    { sessionId: apiSessionId, serviceName }: { readonly sessionId: string; readonly serviceName: string },
    type: Permission,
  ): Promise<TunnelSessionGrant> {
    const { id: routerId, channel } = router;
    const request = { routerId, apiSessionId, serviceName, type, remoteAddress: channel.peer.address };
    const grant = await this.#parts.model.openTunnelSession(request);
    if (isDenial(grant)) throw EdgeRefusal.of(grant);
    return grant;
  }
}

/** These fields of a message; empty texts when it is absent. */
function textsOf<K extends string>(message: Readonly<Record<K, string>> | undefined, keys: readonly K[]) {
  return Object.fromEntries(keys.map((key) => [key, message?.[key] ?? ""])) as Record<K, string>;
}

function apiSessionFields(session: TunnelApiSession) {
  return {
    sessionId: session.id,
    token: session.token,
    refreshIntervalSeconds: session.refreshIntervalSeconds,
    identityId: session.identityId,
    identityName: session.identityName,
    defaultHostingPrecedence: precedenceOf(session.defaultHostingPrecedence),
    defaultHostingCost: session.defaultHostingCost,
    appDataJson: session.appDataJson,
    servicePrecedences: Object.fromEntries(
      [...session.servicePrecedences].map(([id, precedence]) => [id, precedenceOf(precedence)]),
    ),
    serviceCosts: Object.fromEntries(session.serviceCosts),
  };
}

/** The API session is named only when a new one was made, the session always. */
function sessionFields(grant: Pick<TunnelSessionGrant, "newApiSession" | "sessionId" | "sessionToken">) {
  const { newApiSession, sessionId, sessionToken: token } = grant;
  return { ...(newApiSession && { apiSession: apiSessionFields(newApiSession) }), session: { sessionId, token } };
}

function serviceFields(service: TunnelService) {
  return {
    id: service.id,
    name: service.name,
    permissions: [...service.permissions],
    encryption: service.encryptionRequired,
    config: Buffer.from(service.configJson, "utf8"),
    tags: Buffer.from(service.tagsJson, "utf8"),
  };
}
