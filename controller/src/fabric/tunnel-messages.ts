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
import type { CircuitMessages } from "./circuits/circuit-messages.ts";
import {
  DenialCode,
  type FabricModel,
  isDenial,
  type TunnelApiSession,
  type TunnelClaim,
  type TunnelGrant,
  type TunnelService,
  type TunnelSessionGrant,
} from "./ports.ts";
import { EdgeRefusal, reply, serveEdgeRequest, serveNotice } from "./requests.ts";
import { onMessage, onRawMessage, read } from "./routers/inbound.ts";
import type { RouterConnection } from "./routers/router-connection.ts";
import { type TerminatorMessages, terminatorResult } from "./terminators/terminator-messages.ts";

const { CreateTerminatorResult } = edgeCtrlPb;

/** Refusals of a terminator that trying again cannot change. */
const FINAL_REFUSALS: ReadonlySet<DenialCode> = new Set([
  DenialCode.Internal,
  DenialCode.InvalidCost,
  DenialCode.InvalidPrecedence,
]);

export interface TunnelMessagesParts {
  readonly model: Pick<
    FabricModel,
    "openTunnelApiSession" | "tunnelServices" | "openTunnelSession" | "authorizeTunnel"
  >;
  readonly circuits: CircuitMessages;
  readonly access: CircuitAccess;
  readonly terminators: TerminatorMessages;
  readonly log: Logger;
}

/**
 * A router that is itself a tunneler: it acts for the identity with its own id, through API session and sessions (protocol version 1), or without any when it
 * has the data model (version 2).
 *
 * Source: docs/protocol/fabric.md, "Tunneling routers".
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
    const { envInfo: env, sdkInfo: sdk } = body;
    const session = await this.#parts.model.openTunnelApiSession(router.id, {
      envInfo: {
        arch: env?.arch ?? "",
        os: env?.os ?? "",
        osRelease: env?.osRelease ?? "",
        osVersion: env?.osVersion ?? "",
        hostname: env?.hostname ?? "",
        domain: env?.domain ?? "",
      },
      sdkInfo: {
        appId: sdk?.appId ?? "",
        appVersion: sdk?.appVersion ?? "",
        branch: sdk?.branch ?? "",
        revision: sdk?.revision ?? "",
        type: sdk?.type ?? "",
        version: sdk?.version ?? "",
      },
      configTypes: body.configTypes.length === 0 ? ["all"] : body.configTypes,
      remoteAddress: router.channel.peer.address,
    });
    if (isDenial(session)) throw EdgeRefusal.of(session);
    return apiSessionFields(session);
  }

  #dial(router: RouterConnection, body: edgeCtrlPb.CreateCircuitForServiceRequest, message: Message): void {
    serveEdgeRequest(router, router.parallelLane, message, async () => {
      const grant = await this.#openSession(router, body.sessionId, body.serviceName, "Dial");
      const { circuits, access } = this.#parts;
      const circuit = await access.whileSessionLasts(grant.sessionToken, () =>
        circuits.dial(router, {
          service: grant.service,
          identityId: grant.identityId,
          grant: { kind: "session", sessionId: grant.sessionId },
          instanceId: body.terminatorInstanceId,
          peerData: byteMap(body.peerData),
        }),
      );
      return {
        contentType: EdgeCtrlType.CreateCircuitForServiceResponse,
        body: encodeControl(edgeCtrlPb.CreateCircuitForServiceResponseSchema, {
          ...grantFields(grant),
          circuitId: circuit.id,
          address: circuit.route.ingressId,
          peerData: Object.fromEntries(circuit.peerData),
          tags: { ...circuit.tags },
        }),
      };
    });
  }

  #host(router: RouterConnection, body: edgeCtrlPb.CreateTunnelTerminatorRequest, message: Message): void {
    serveEdgeRequest(router, router.orderedLane, message, async () => {
      if (body.address.trim() === "") throw new EdgeRefusal(DenialCode.Internal, "the terminator has no address");
      const grant = await this.#openSession(router, body.sessionId, body.serviceName, "Bind");
      const { peerData, cost, precedence, instanceId, instanceSecret, address } = body;
      const outcome = await this.#parts.terminators.create(router, {
        id: address,
        address,
        binding: RouterBinding.Tunnel,
        serviceId: grant.service.id,
        hostId: grant.identityId,
        peerData,
        cost,
        precedence,
        instanceId,
        instanceSecret,
      });
      if (!("terminator" in outcome)) throw new EdgeRefusal(DenialCode.Internal, outcome.message);
      return {
        contentType: EdgeCtrlType.CreateTunnelTerminatorResponse,
        body: encodeControl(edgeCtrlPb.CreateTunnelTerminatorResponseSchema, {
          ...grantFields(grant),
          terminatorId: outcome.terminator.id,
          startTime: body.startTime,
        }),
      };
    });
  }

  /** As {@link TunnelMessages.#dial} without a session: the policy itself is asked. */
  #dialV2(router: RouterConnection, body: edgeCtrlPb.CreateTunnelCircuitV2Request, message: Message): void {
    serveEdgeRequest(router, router.parallelLane, message, async () => {
      const { circuits, access } = this.#parts;
      const circuit = await access.whileAllowed(async () => {
        const grant = await this.#authorize({ routerId: router.id, service: { name: body.serviceName }, type: "Dial" });
        return circuits.dial(router, {
          service: grant.service,
          identityId: grant.identityId,
          grant: { kind: "identity" },
          instanceId: body.terminatorInstanceId,
          peerData: byteMap(body.peerData),
        });
      });
      return {
        contentType: EdgeCtrlType.CreateTunnelCircuitV2Response,
        body: encodeControl(edgeCtrlPb.CreateTunnelCircuitV2ResponseSchema, {
          circuitId: circuit.id,
          address: circuit.route.ingressId,
          peerData: Object.fromEntries(circuit.peerData),
          tags: { ...circuit.tags },
        }),
      };
    });
  }

  /** This request always gets its own response type. What a later change of policy may allow is answered as busy: the router tries again. */
  #hostV2(router: RouterConnection, body: edgeCtrlPb.CreateTunnelTerminatorV2Request, message: Message): void {
    const { terminators, log } = this.#parts;
    const answer = (result: edgeCtrlPb.CreateTerminatorResult, msg: string): void => {
      const { address: terminatorId, startTime } = body;
      reply(router, message, {
        contentType: EdgeCtrlType.CreateTunnelTerminatorV2Response,
        body: encodeControl(edgeCtrlPb.CreateTunnelTerminatorV2ResponseSchema, {
          terminatorId,
          startTime,
          result,
          msg,
        }),
      });
    };
    const isTaken = router.orderedLane.offer(async () => {
      if (body.address.trim() === "")
        return answer(CreateTerminatorResult.FailedOther, "the terminator has no address");
      try {
        const claim = { routerId: router.id, service: { id: body.serviceId }, type: "Bind" } as const;
        const grant = await this.#authorize(claim);
        const { peerData, cost, precedence, instanceId, instanceSecret, address } = body;
        const outcome = await terminators.create(router, {
          ...{ id: address, address, binding: RouterBinding.Tunnel },
          ...{ serviceId: grant.service.id, hostId: grant.identityId },
          ...{ peerData, cost, precedence, instanceId, instanceSecret },
        });
        answer(...terminatorResult(outcome));
      } catch (error) {
        const isRefusal = error instanceof EdgeRefusal;
        if (isRefusal)
          log.info({ routerId: router.id, code: error.code, reason: error.message }, "a terminator was refused");
        else
          log.error({ routerId: router.id, err: error }, "a terminator could not be stored; the router will try again");
        const isFinal = isRefusal && FINAL_REFUSALS.has(error.code);
        const result = isFinal ? CreateTerminatorResult.FailedOther : CreateTerminatorResult.FailedBusy;
        answer(result, isRefusal ? error.message : "internal error");
      }
    }, message.body.length);
    if (!isTaken) answer(CreateTerminatorResult.FailedBusy, "server too busy");
  }

  /** The answer is a message of its own, and only comes when something has changed since the mark the router gives back. */
  #listServices(router: RouterConnection, message: Message): void {
    if (message.body.length > MAX_SERVICE_LIST_MARK) {
      router.channel.close(
        new Error(
          `router ${router.id} sent a list mark of ${message.body.length} bytes, at most ${MAX_SERVICE_LIST_MARK} are allowed`,
        ),
      );
      return;
    }
    serveNotice(router, router.orderedLane, message, async () => {
      const list = await this.#parts.model.tunnelServices(router.id, message.body.toString("utf8"));
      if (list === undefined) return;
      if (isDenial(list)) {
        this.#parts.log.warn(
          { routerId: router.id, code: list.denied },
          "a router may not list services for its tunneler",
        );
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
    apiSessionId: string,
    serviceName: string,
    type: Permission,
  ): Promise<TunnelSessionGrant> {
    const remoteAddress = router.channel.peer.address;
    const grant = await this.#parts.model.openTunnelSession({
      routerId: router.id,
      apiSessionId,
      serviceName,
      type,
      remoteAddress,
    });
    if (isDenial(grant)) throw EdgeRefusal.of(grant);
    return grant;
  }
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
function grantFields(grant: TunnelSessionGrant) {
  return {
    ...(grant.newApiSession === undefined ? {} : { apiSession: apiSessionFields(grant.newApiSession) }),
    session: { sessionId: grant.sessionId, token: grant.sessionToken },
  };
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
