import {
  BaseHeader,
  BaseType,
  ControlType,
  ctrlPb,
  EdgeCtrlType,
  edgeCtrlPb,
  encodeControl,
  HELLO_LIMITS,
  Headers,
  type Logger,
  type Message,
} from "@sallyport/wire";
import type { EmitEvent } from "../fabric-events.ts";
import type { FabricModel } from "../ports.ts";
import { certificateAnswer, EdgeRefusal, FabricRefusal, reply, serveFabricRequest, serveNotice } from "../requests.ts";
import { AlertLimit, MAX_ALERTS_BYTES, routerAlerts } from "./alerts.ts";
import type { IdentityConnections } from "./identity-connections.ts";
import { MAX_FIELDS_OF_REPORTS, onMessage, onRawMessage } from "./inbound.ts";
import type { RouterConnection } from "./router-connection.ts";
import type { RouterLife } from "./router-life.ts";

interface RouterMessagesParts {
  readonly model: Pick<
    FabricModel,
    | "quiesceRouter"
    | "dequiesceRouter"
    | "deleteRouter"
    | "saveRouterInterfaces"
    | "extendRouterCertificates"
    | "verifyRouterCertificate"
  >;
  readonly identities: IdentityConnections;
  readonly life: Pick<RouterLife, "listenersChanged">;
  readonly emit: EmitEvent;
  readonly log: Logger;
}

/** Of a router's interfaces, and of each one's addresses, are kept. */
const MAX_INTERFACES = 256;
const MAX_INTERFACE_TEXT = 256;
/** As much as the headers of a hello, which listeners come with at first. */
const MAX_LISTENERS_BYTES = HELLO_LIMITS.maxHeaders;
/** What the controller answers when a router inspects it. */
const CAPABILITIES = ["ziti.fabric", "ziti.edge"] as const;

/** What routers say about themselves: life cycle, interfaces, connected identities, certificates, inspection. Source: docs/protocol/fabric.md, "Routers". */
export class RouterMessages {
  readonly #parts: RouterMessagesParts;

  constructor(parts: RouterMessagesParts) {
    this.#parts = parts;
  }

  attach(router: RouterConnection): void {
    const { model } = this.#parts;
    const lane = router.orderedLane;
    onRawMessage(router, BaseType.Ping, (message) => {
      const headers = new Headers().setBool(BaseHeader.ResultSuccess, true);
      reply(router, message, { contentType: BaseType.Result, headers, body: Buffer.from("ok") });
    });
    onRawMessage(router, BaseType.Latency, (message) => router.channel.replyResult(message, true));
    onRawMessage(router, ControlType.QuiesceRouter, (message) =>
      serveFabricRequest(router, lane, message, async () => {
        await model.quiesceRouter(router.id);
        return "router quiesced";
      }),
    );
    onRawMessage(router, ControlType.DequiesceRouter, (message) =>
      serveFabricRequest(router, lane, message, async () => {
        await model.dequiesceRouter(router.id);
        return "router dequiesced";
      }),
    );
    // Success has no answer: the entity is gone, and its channel is closed for it.
    onRawMessage(router, ControlType.DecommissionRouter, (message) =>
      serveNotice(router, lane, message, async () => {
        try {
          await model.deleteRouter(router.id);
        } catch (err) {
          this.#parts.log.error({ routerId: router.id, err }, "a router could not be decommissioned");
          if (!router.channel.isClosed) router.channel.replyResult(message, false, "the router could not be deleted");
          return;
        }
        router.channel.close(new Error(`router ${router.id} was decommissioned`));
      }),
    );
    onMessage(router, ControlType.RouterInterfacesUpdate, ctrlPb.RouterInterfacesUpdateSchema, (body, message) =>
      serveFabricRequest(router, lane, message, () => this.#interfaces(router, body)),
    );
    const { ConnectEventsSchema } = edgeCtrlPb;
    const connectEvents = (body: edgeCtrlPb.ConnectEvents) => this.#connectEvents(router, body);
    onMessage(router, EdgeCtrlType.ConnectEvents, ConnectEventsSchema, connectEvents, MAX_FIELDS_OF_REPORTS);
    onMessage(
      router,
      EdgeCtrlType.EnrollmentExtendRouterRequest,
      edgeCtrlPb.EnrollmentExtendRouterRequestSchema,
      (body, message) => serveNotice(router, lane, message, () => this.#extend(router, message, body)),
    );
    onMessage(
      router,
      EdgeCtrlType.EnrollmentExtendRouterVerifyRequest,
      edgeCtrlPb.EnrollmentExtendRouterVerifyRequestSchema,
      (body, message) =>
        serveNotice(router, lane, message, async () =>
          reply(router, message, certificateAnswer(await this.#verify(router, body))),
        ),
    );
    onMessage(router, ControlType.InspectRequest, ctrlPb.InspectRequestSchema, (body, message) => {
      const isAsked = body.requestedValues.some((name) => name.toLowerCase() === "capability");
      const values = isAsked ? CAPABILITIES.map((value) => ({ name: "capability", value })) : [];
      const answer = encodeControl(ctrlPb.InspectResponseSchema, { success: true, values });
      reply(router, message, { contentType: ControlType.InspectResponse, body: answer });
    });
    onMessage(router, ControlType.UpdateLinkListeners, ctrlPb.ListenersSchema, (body, message) =>
      this.#listeners(router, body, message),
    );
    const limit = new AlertLimit();
    onMessage(router, ControlType.Alerts, ctrlPb.AlertsSchema, (body, message) =>
      this.#raise(router, limit, body, message),
    );
    // Frames that an operator has a router trace: of use only to that operator.
    onRawMessage(router, ControlType.TraceEvent, ({ body }) =>
      this.#parts.emit({ kind: "router-trace", routerId: router.id, body }),
    );
  }

  #listeners(router: RouterConnection, { listeners }: ctrlPb.Listeners, { body }: Message): void {
    const { life, log } = this.#parts;
    if (body.length > MAX_LISTENERS_BYTES) {
      const fields = { routerId: router.id, bytes: body.length, limit: MAX_LISTENERS_BYTES };
      log.warn(fields, "the router's link listeners are too many; those from before stay");
      return;
    }
    router.listeners = listeners;
    life.listenersChanged(router);
  }

  #raise(router: RouterConnection, limit: AlertLimit, body: ctrlPb.Alerts, message: Message): void {
    const { emit, log } = this.#parts;
    if (message.body.length > MAX_ALERTS_BYTES) {
      const fields = { routerId: router.id, bytes: message.body.length, limit: MAX_ALERTS_BYTES };
      log.warn(fields, "the router's alerts are too large and are dropped");
      return;
    }
    if (!limit.allows(performance.now())) {
      log.warn({ routerId: router.id }, "the router sends alerts too often; some are dropped");
      return;
    }
    for (const alert of routerAlerts(router.id, body)) emit({ kind: "router-alert", routerId: router.id, alert });
  }

  async #interfaces(router: RouterConnection, body: ctrlPb.RouterInterfacesUpdate): Promise<string> {
    await this.#parts.model.saveRouterInterfaces(
      router.id,
      body.interfaces.slice(0, MAX_INTERFACES).map((i) => ({
        name: short(i.name),
        hardwareAddress: short(i.hardwareAddress),
        mtu: Number(i.mtu),
        index: Number(i.index),
        flags: Number(i.flags),
        addresses: i.addresses.slice(0, MAX_INTERFACES).map(short),
      })),
    );
    return "success";
  }

  #connectEvents(router: RouterConnection, body: edgeCtrlPb.ConnectEvents): void {
    const { identities, emit } = this.#parts;
    const { online, offline } = identities.report(
      router.id,
      body.fullState,
      body.events.map(({ identityId, isConnected }) => ({ identityId, isConnected })),
    );
    if (online.length > 0 || offline.length > 0) {
      emit({ kind: "identities-changed", routerId: router.id, online, offline, unknown: [] });
    }
    // A full report repeats connections that were reported before.
    if (body.fullState) return;
    const connections = body.events.flatMap(({ identityId, connectTimes }) =>
      connectTimes.map(({ connectTime, srcAddr, dstAddr }) => ({
        identityId,
        at: new Date(Number(connectTime)),
        sourceAddress: srcAddr,
        destinationAddress: dstAddr,
      })),
    );
    if (connections.length > 0) emit({ kind: "identities-connected", routerId: router.id, connections });
  }

  /** The certificates go out as a message of their own; a failure is the answer to the request. */
  async #extend(
    router: RouterConnection,
    message: Message,
    body: edgeCtrlPb.EnrollmentExtendRouterRequest,
  ): Promise<void> {
    const { clientCertCsr: clientCsrPem, serverCertCsr: serverCsrPem, requireVerification } = body;
    const request = { fingerprint: fingerprintOf(router), clientCsrPem, serverCsrPem, requireVerification };
    const extension = await this.#parts.model.extendRouterCertificates(request).catch((error: unknown) => {
      const { message: reason } = EdgeRefusal.ofFailure(error);
      reply(router, message, certificateAnswer({ code: "RENEWAL_FAILED", message: reason }));
      throw error;
    });
    if ("refused" in extension) {
      const { refused: reason } = extension;
      this.#parts.log.warn({ routerId: router.id, reason }, "the renewal of a router's certificates was refused");
      reply(router, message, certificateAnswer({ code: "RENEWAL_REFUSED", message: reason }));
      return;
    }
    this.#parts.log.info({ routerId: router.id, isPending: requireVerification }, "router certificates renewed");
    const answer = encodeControl(edgeCtrlPb.EnrollmentCertsResponseSchema, extension);
    router.send({ contentType: EdgeCtrlType.EnrollmentCertsResponse, body: answer });
  }

  async #verify(
    router: RouterConnection,
    body: edgeCtrlPb.EnrollmentExtendRouterVerifyRequest,
  ): Promise<{ code: string; message: string } | undefined> {
    const { model, log } = this.#parts;
    if (body.clientCertPem === "") {
      return { code: "MISSING_CLIENT_PEM", message: "the request holds no client certificate" };
    }
    try {
      const { clientCertPem } = body;
      return await model.verifyRouterCertificate({ fingerprint: fingerprintOf(router), clientCertPem });
    } catch (err) {
      log.error({ routerId: router.id, err }, "a renewed router certificate could not be verified");
      return { code: "VERIFY_ERROR", message: "the certificate could not be verified" };
    }
  }
}

function short(text: string): string {
  return text.slice(0, MAX_INTERFACE_TEXT);
}

function fingerprintOf(router: RouterConnection): string {
  const { fingerprint } = router.channel.peer;
  if (fingerprint === undefined) throw new FabricRefusal("the channel was opened without a certificate");
  return fingerprint;
}
