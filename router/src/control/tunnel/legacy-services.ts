import { arch, hostname, release, type } from "node:os";
import { errorText } from "@sallyport/async";
import {
  BaseType,
  decodeControl,
  EdgeCtrlType,
  EdgeErrorCode,
  edgeCtrlPb,
  encodeControl,
  knownPrecedence,
  type Logger,
  MAX_SERVICE_LIST_MARK,
  type Message,
  PROTOCOL_VERSION,
} from "@sallyport/wire";
import type { ControllerConnection } from "../controllers/controller-connection.ts";
import type { Controllers } from "../controllers/controllers.ts";
import { EdgeCtrlError, expectReply } from "../errors.ts";
import { jsonObject, type TunnelerService, type TunnelIdentity } from "./tunnel-identity.ts";

export interface LegacyServicesOptions {
  readonly controllers: Controllers;
  /** `listeners[tunnel].options.svcPollRate`. */
  readonly pollMs: number;
  readonly onChange: (identity: TunnelIdentity | undefined) => void;
  readonly log: Logger;
  /** Wait after an API session was refused; for tests. */
  readonly retryMs?: number;
}

const SESSION_TIMEOUT_MS = 30_000;
const RETRY_MS = 30_000;

/**
 * Services of the router's identity from a controller without data model: an API session over the control channel, and a
 * list that is asked for again and again and answered only when it has changed (docs/protocol/control.md, "Tunneling").
 */
export class LegacyServices {
  readonly #o: LegacyServicesOptions;
  readonly #sessions = new Map<string, Promise<edgeCtrlPb.CreateApiSessionResponse>>();
  #controller: ControllerConnection | undefined;
  #session: edgeCtrlPb.CreateApiSessionResponse | undefined;
  #list: readonly edgeCtrlPb.TunnelService[] = [];
  #mark: Buffer = Buffer.alloc(0);
  #timer: NodeJS.Timeout | undefined;

  constructor(options: LegacyServicesOptions) {
    this.#o = options;
    options.controllers.handle(EdgeCtrlType.ServicesList, (message, controller) => this.#listed(message, controller));
    // Sessions live at their controller, which may have forgotten them when it is connected again.
    options.controllers.onDisconnected((controller) => this.#sessions.delete(controller.id));
  }

  /** Follows the services at this controller; what another said is kept until this one says something else. */
  follow(controller: ControllerConnection): void {
    if (this.#controller === controller) return;
    this.stop();
    this.#controller = controller;
    this.#mark = Buffer.alloc(0);
    void this.#poll(controller);
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#controller = undefined;
  }

  /**
   * Id of the API session at a controller, opened when there is none.
   * @throws EdgeCtrlError when the router may not tunnel; and as `Channel.request`
   */
  async apiSession(controller: ControllerConnection): Promise<edgeCtrlPb.CreateApiSessionResponse> {
    const known = this.#sessions.get(controller.id);
    if (known !== undefined) return known;
    const opening = this.#open(controller);
    this.#sessions.set(controller.id, opening);
    opening.catch(() => {
      if (this.#sessions.get(controller.id) === opening) this.#sessions.delete(controller.id);
    });
    return opening;
  }

  /** The controller answered with a new API session. */
  renewed(controller: ControllerConnection, session: edgeCtrlPb.CreateApiSessionResponse | undefined): void {
    if (session === undefined) return;
    this.#sessions.set(controller.id, Promise.resolve(session));
    if (controller === this.#controller) this.#session = session;
  }

  /** Runs a request with an API session, and once more with a new one when the controller knows it no longer. */
  async withSession<T>(controller: ControllerConnection, run: (sessionId: string) => Promise<T>): Promise<T> {
    try {
      return await run((await this.apiSession(controller)).sessionId);
    } catch (error) {
      if (!(error instanceof EdgeCtrlError) || error.edgeCode !== EdgeErrorCode.InvalidApiSession) throw error;
      this.#sessions.delete(controller.id);
      return run((await this.apiSession(controller)).sessionId);
    }
  }

  async #open(controller: ControllerConnection): Promise<edgeCtrlPb.CreateApiSessionResponse> {
    const body = encodeControl(edgeCtrlPb.CreateApiSessionRequestSchema, {
      envInfo: { arch: arch(), os: type(), osRelease: release(), hostname: hostname() },
      sdkInfo: { appId: "sallyport-router", appVersion: PROTOCOL_VERSION, type: "ziti-router:tunnel" },
      configTypes: ["all"],
    });
    const reply = await controller.channel.request(
      { contentType: EdgeCtrlType.CreateApiSessionRequest, body },
      { timeoutMs: SESSION_TIMEOUT_MS },
    );
    if (reply.contentType === BaseType.Result) {
      throw new EdgeCtrlError(EdgeErrorCode.Internal, reply.body.toString("utf8") || "no API session for tunneling");
    }
    return decodeControl(
      edgeCtrlPb.CreateApiSessionResponseSchema,
      expectReply(reply, EdgeCtrlType.CreateApiSessionResponse).body,
    );
  }

  async #poll(controller: ControllerConnection): Promise<void> {
    let waitMs = this.#o.pollMs;
    try {
      this.#session = await this.apiSession(controller);
      this.#o.controllers.sendTo(controller.id, { contentType: EdgeCtrlType.ListServicesRequest, body: this.#mark });
    } catch (error) {
      waitMs = this.#o.retryMs ?? RETRY_MS;
      const notEnabled = error instanceof EdgeCtrlError && error.edgeCode === EdgeErrorCode.TunnelingNotEnabled;
      const reason = errorText(error);
      const text = "no API session for the tunneler; enable tunneling for this router at the controller";
      this.#o.log.warn({ controllerId: controller.id, reason }, notEnabled ? text : "no API session for the tunneler");
      if (notEnabled && this.#controller === controller) this.#o.onChange(undefined);
    }
    if (this.#controller !== controller || controller.channel.isClosed) return;
    this.#timer = setTimeout(() => void this.#poll(controller), waitMs);
    this.#timer.unref();
  }

  #listed(message: Message, controller: ControllerConnection): void {
    if (controller !== this.#controller) return;
    const { lastUpdate, services } = decodeControl(edgeCtrlPb.ServicesListSchema, message.body);
    if (lastUpdate.length <= MAX_SERVICE_LIST_MARK) this.#mark = Buffer.from(lastUpdate);
    this.#list = services;
    if (this.#session !== undefined) this.#o.onChange(identityOf(this.#session, this.#list));
  }
}

function identityOf(
  session: edgeCtrlPb.CreateApiSessionResponse,
  list: readonly edgeCtrlPb.TunnelService[],
): TunnelIdentity {
  const services = list.map((service): [string, TunnelerService] => {
    const precedence = session.servicePrecedences[service.id];
    return [
      service.id,
      {
        id: service.id,
        name: service.name,
        canDial: service.permissions.includes("Dial"),
        canBind: service.permissions.includes("Bind"),
        isEncrypted: service.encryption,
        configs: new Map(Object.entries(jsonObject(service.config))),
        cost: session.serviceCosts[service.id],
        precedence: precedence === undefined ? undefined : knownPrecedence(precedence),
      },
    ];
  });
  return {
    id: session.identityId,
    name: session.identityName,
    appData: jsonObject(session.appDataJson),
    defaultCost: session.defaultHostingCost,
    defaultPrecedence: knownPrecedence(session.defaultHostingPrecedence),
    services: new Map(services),
  };
}
