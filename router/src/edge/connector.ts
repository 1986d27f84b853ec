import {
  BaseHeader,
  EdgeErrorCode,
  EdgeHeader,
  EdgeType,
  Headers,
  type Logger,
  type Message,
  PeerData,
  RequestTimeoutError,
  ROUTER_STOPPING,
  ServiceIdentifierType,
} from "@sallyport/wire";
import type { CircuitCreated, ControlPlane } from "../control/control-plane.ts";
import { EdgeCtrlError, NoControllerError } from "../control/errors.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { DataCircuit } from "./data-circuit.ts";
import { edgeCircuit } from "./edge-circuit.ts";
import {
  connIdInUse,
  type Denial,
  DeniedError,
  denial,
  INVALID_SESSION,
  MAX_SESSION_TOKEN,
  NO_CONTROLLER_FOR_CIRCUIT,
  saysDatagrams,
  stateClosedFor,
  tooManyWaiting,
} from "./edge-messages.ts";
import { type SdkCircuit, withFlowControl } from "./flow-control/sdk-circuit.ts";
import type { SdkChannel } from "./sdk-channel.ts";
import { type Grant, isJwt, opaqueGrant, type SdkSession } from "./sdk-session.ts";
import type { ServicePermissions } from "./tokens/service-permissions.ts";

/** Headers of Connect that travel to the hosting side under the same number. */
const FORWARDED = [PeerData.PublicKey, PeerData.CallerId, PeerData.AppData, PeerData.ConnectionMarker] as const;
/** Peer data that an SDK gets to see: everything else in an answer is the channel's or the control plane's own. */
const FIRST_PEER_HEADER = 1000;
const CONTROL_KEYS = { first: 1100, last: 1199 } as const;

/** What a dial is for: a session, or on a channel with an access token a service. */
type Wanted =
  | { readonly sessionToken: string }
  | { readonly service: { readonly id: string } | { readonly name: string } };

/** Dials of SDKs: asks the controller for a circuit and starts its initiating end (docs/protocol/data-path.md, "Dialing"). */
export class Connector {
  readonly #control: ControlPlane;
  readonly #forwarder: Forwarder;
  readonly #permissions: ServicePermissions;
  readonly #log: Logger;
  #isStopping = false;

  constructor(control: ControlPlane, forwarder: Forwarder, permissions: ServicePermissions, log: Logger) {
    this.#control = control;
    this.#forwarder = forwarder;
    this.#permissions = permissions;
    this.#log = log;
  }

  /** By the token of a dial session; a client with an access token may name the service instead. */
  connect(sdk: SdkChannel, connId: number, message: Message): void {
    const text = message.body.toString("utf8");
    const isService = sdk.session.kind === "token" && text !== "" && !isJwt(text);
    this.#dial(sdk, connId, message, isService ? { service: { id: text } } : { sessionToken: text });
  }

  /** By the id or the name of the service, without a session (docs/protocol/edge.md, "Dialling by service"). */
  connectByService(sdk: SdkChannel, connId: number, message: Message): void {
    const refuse = (text: string) => sdk.send(stateClosedFor(message, connId, text));
    // What an opaque session may do, its controller decided when it made the dial session.
    const service = message.headers.getString(EdgeHeader.ServiceId) ?? "";
    if (sdk.session.kind === "opaque") refuse("connect-v2 requires an OIDC API session");
    else if (service === "") refuse("service header not set, required");
    else {
      const isName = message.headers.getByte(EdgeHeader.ServiceIdentifierType) === ServiceIdentifierType.Name;
      this.#dial(sdk, connId, message, { service: isName ? { name: service } : { id: service } });
    }
  }

  /** From now on dials are refused: the router is to stop. */
  stop(): void {
    this.#isStopping = true;
  }

  #dial(sdk: SdkChannel, connId: number, message: Message, wanted: Wanted): void {
    const { session } = sdk;
    const refuse = (reason: string | Denial): void => sdk.send(stateClosedFor(message, connId, reason));
    const grant = opaqueGrant("sessionToken" in wanted ? wanted.sessionToken : "", "Dial");
    const obstacle = this.#obstacle(sdk, connId, message, grant);
    if (obstacle !== undefined) {
      refuse(obstacle);
      return;
    }
    const abort = new AbortController();
    sdk.addConnecting(connId, { grant, abort });
    const finish = (error: unknown): void => {
      sdk.removeConnecting(connId);
      refuse(refusalOf(error));
      this.#log.debug({ err: error, identityId: session.identityId, connId }, "dial refused");
    };
    abort.signal.addEventListener("abort", () => finish(abort.signal.reason), { once: true });
    // The answer is always awaited: a circuit that was built must be taken down, even when the client has left.
    this.#grant(session, wanted, grant, abort.signal)
      .then(async (granted) => {
        if (abort.signal.aborted) return;
        const circuit = await this.#create(sdk, message, granted);
        if (abort.signal.aborted || sdk.channel.isClosed) {
          this.#forwarder.giveUp(circuit);
          return;
        }
        // What has changed while the circuit was built has ended no circuit of this channel.
        const reason = session.kind === "token" ? this.#permissions.denial(session, granted) : undefined;
        if (reason !== undefined) {
          this.#forwarder.giveUp(circuit);
          throw new DeniedError(reason);
        }
        sdk.removeConnecting(connId);
        this.#start(sdk, connId, message, granted, circuit);
      })
      .catch((error: unknown) => {
        if (!abort.signal.aborted) finish(error);
      });
  }

  /** Why a dial is refused without asking the data model or a controller. */
  #obstacle(sdk: SdkChannel, connId: number, { body }: Message, grant: Grant): string | Denial | undefined {
    if (this.#isStopping) return `${ROUTER_STOPPING}; dial through another`;
    if (sdk.isTaken(connId)) return connIdInUse(connId);
    if (sdk.isWaitingForMost) return tooManyWaiting(sdk.options.maxConnecting);
    const isRemoved = (name: string | undefined) => name !== undefined && this.#control.wasSessionRemoved(name);
    // Whatever it names: it is kept while the dial waits.
    const isNone = body.length > MAX_SESSION_TOKEN || isRemoved(grant.sessionToken) || isRemoved(grant.sessionId);
    return isNone ? denial(EdgeErrorCode.InvalidSession, INVALID_SESSION) : undefined;
  }

  async #grant(session: SdkSession, wanted: Wanted, opaque: Grant, signal: AbortSignal): Promise<Grant> {
    if (session.kind === "opaque") return opaque;
    if ("service" in wanted) return await this.#permissions.ofService(session, wanted.service, signal);
    return await this.#permissions.ofToken(session, wanted.sessionToken, "Dial", signal);
  }

  async #create({ session, options }: SdkChannel, message: Message, grant: Grant): Promise<CircuitCreated> {
    const peerData = session.kind === "token" ? this.#permissions.dialer(session) : new Map<number, Buffer>();
    for (const key of FORWARDED) {
      const value = message.headers.get(key);
      if (value !== undefined) peerData.set(key, value);
    }
    const sticky = message.headers.get(EdgeHeader.StickinessToken);
    if (sticky !== undefined) peerData.set(PeerData.StickinessToken, sticky);
    const request = {
      apiSessionToken: session.token,
      fingerprints: session.fingerprints,
      instanceId: message.headers.getString(EdgeHeader.TerminatorIdentity),
      peerData,
      timeoutMs: options.getCircuitTimeoutMs,
    };
    const { sessionToken, serviceId } = grant;
    if (sessionToken !== "" || serviceId === undefined)
      return await this.#control.createCircuit({ ...request, sessionToken });
    return await this.#control.createServiceCircuit({ ...request, serviceId, identityId: session.identityId });
  }

  #start(sdk: SdkChannel, connId: number, message: Message, grant: Grant, circuit: CircuitCreated): void {
    const bySdk = message.headers.getBool(EdgeHeader.UseXgressToSdk) === true;
    const { circuitId, address } = circuit;
    const forwarder = this.#forwarder;
    const carriesDatagrams = saysDatagrams(message.headers.get(EdgeHeader.AppData));
    let connection: DataCircuit | SdkCircuit;
    try {
      connection = edgeCircuit(
        { forwarder, sdk, connId, grant, circuitId, address, side: "initiator", carriesDatagrams },
        bySdk,
      );
    } catch (error) {
      this.#forwarder.giveUp(circuit);
      throw error;
    }
    sdk.addConnection(connection);
    const headers = new Headers().setString(EdgeHeader.CircuitId, circuit.circuitId);
    if (bySdk) withFlowControl(headers, circuit);
    if (message.headers.has(EdgeHeader.RouterProvidedConnId)) headers.setBool(EdgeHeader.RouterProvidedConnId, true);
    for (const [key, value] of circuit.peerData) {
      if (key === PeerData.StickinessToken) headers.set(EdgeHeader.StickinessToken, value);
      else if (key >= FIRST_PEER_HEADER && (key < CONTROL_KEYS.first || key > CONTROL_KEYS.last))
        headers.set(key, value);
    }
    headers.setU32(EdgeHeader.ConnId, connId);
    headers.setI32(BaseHeader.ReplyFor, message.sequence);
    // On the connection that carries the circuit's data, which must not overtake it.
    sdk.send({ contentType: EdgeType.StateConnected, headers }, sdk.outputFor(connId)?.underlay);
    if (connection instanceof DataCircuit) connection.xgress.start();
  }
}

/** What the client is told: session problems by the text clients know, everything else by the controller's. */
function refusalOf(error: unknown): string | Denial {
  if (error instanceof DeniedError) return error.denial;
  if (error instanceof EdgeCtrlError) {
    const { edgeCode, retryHint, text } = error;
    const isSession = edgeCode === EdgeErrorCode.InvalidSession || edgeCode === EdgeErrorCode.InvalidApiSession;
    return denial(edgeCode, isSession ? INVALID_SESSION : text, { retryHint });
  }
  if (error instanceof NoControllerError) return NO_CONTROLLER_FOR_CIRCUIT;
  if (error instanceof RequestTimeoutError) return "the controller did not create the circuit in time";
  return error instanceof Error && error.message !== "" ? error.message : "the circuit could not be created";
}
