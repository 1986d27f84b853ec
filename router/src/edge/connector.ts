import {
  BaseHeader,
  EdgeErrorCode,
  EdgeHeader,
  EdgeType,
  FaultSubject,
  Headers,
  type Logger,
  type Message,
  PeerData,
  RequestTimeoutError,
  ROUTER_STOPPING,
} from "@sallyport/wire";
import type { CircuitCreated, ControlPlane } from "../control/control-plane.ts";
import { EdgeCtrlError, NoControllerError } from "../control/errors.ts";
import type { Forwarder } from "../forwarder/forwarder.ts";
import { DataCircuit } from "./data-circuit.ts";
import { edgeCircuit } from "./edge-circuit.ts";
import {
  INVALID_SESSION,
  MAX_SESSION_TOKEN,
  NO_CONTROLLER_FOR_CIRCUIT,
  saysDatagrams,
  stateClosedFor,
} from "./edge-messages.ts";
import { type SdkCircuit, withFlowControl } from "./flow-control/sdk-circuit.ts";
import type { SdkChannel } from "./sdk-channel.ts";

/** Headers of Connect that travel to the hosting side under the same number. */
const FORWARDED = [PeerData.PublicKey, PeerData.CallerId, PeerData.AppData, PeerData.ConnectionMarker] as const;
/** Dials one SDK may have waiting at the controller. */
const MAX_CONNECTING = 1_000;
/** Peer data that an SDK gets to see: everything else in an answer is the channel's or the control plane's own. */
const FIRST_PEER_HEADER = 1000;
const CONTROL_KEYS = { first: 1100, last: 1199 } as const;

/** Dials of SDKs: asks the controller for a circuit and starts its initiating end (docs/protocol/data-path.md, "Dialing"). */
export class Connector {
  readonly #control: ControlPlane;
  readonly #forwarder: Forwarder;
  readonly #log: Logger;
  #isStopping = false;

  constructor(control: ControlPlane, forwarder: Forwarder, log: Logger) {
    this.#control = control;
    this.#forwarder = forwarder;
    this.#log = log;
  }

  connect(sdk: SdkChannel, connId: number, message: Message): void {
    const sessionToken = message.body.toString("utf8");
    const refuse = (text: string): void => sdk.send(stateClosedFor(message, connId, text));
    const obstacle = this.#obstacle(sdk, connId, sessionToken);
    if (obstacle !== undefined) {
      refuse(obstacle);
      return;
    }
    const abort = new AbortController();
    sdk.addConnecting(connId, { sessionToken, abort });
    const finish = (error: unknown): void => {
      sdk.removeConnecting(connId);
      refuse(refusalText(error));
      this.#log.debug({ err: error, identityId: sdk.session.identityId, connId }, "dial refused");
    };
    abort.signal.addEventListener("abort", () => finish(abort.signal.reason), { once: true });
    // The answer is always awaited: a circuit that was built must be taken down, even when the client has left.
    this.#create(sdk, message, sessionToken)
      .then((circuit) => {
        if (abort.signal.aborted || sdk.channel.isClosed) {
          this.#release(circuit);
          return;
        }
        sdk.removeConnecting(connId);
        this.#start(sdk, connId, message, sessionToken, circuit);
      })
      .catch((error: unknown) => {
        if (!abort.signal.aborted) finish(error);
      });
  }

  /** From now on dials are refused: the router is to stop. */
  stop(): void {
    this.#isStopping = true;
  }

  /** Why a dial is refused without asking the controller. */
  #obstacle(sdk: SdkChannel, connId: number, sessionToken: string): string | undefined {
    if (this.#isStopping) return `${ROUTER_STOPPING}; dial through another`;
    if (sdk.isTaken(connId)) return `connection id ${connId} is already in use on this channel`;
    if (sdk.connecting >= MAX_CONNECTING) return `${MAX_CONNECTING} dials of this client are waiting; try again later`;
    const isNone = sessionToken.length > MAX_SESSION_TOKEN || this.#control.wasSessionRemoved(sessionToken);
    return isNone ? INVALID_SESSION : undefined;
  }

  #create(sdk: SdkChannel, message: Message, sessionToken: string): Promise<CircuitCreated> {
    const peerData = new Map<number, Buffer>();
    for (const key of FORWARDED) {
      const value = message.headers.get(key);
      if (value !== undefined) peerData.set(key, value);
    }
    const sticky = message.headers.get(EdgeHeader.StickinessToken);
    if (sticky !== undefined) peerData.set(PeerData.StickinessToken, sticky);
    return this.#control.createCircuit({
      sessionToken,
      apiSessionToken: sdk.session.token,
      fingerprints: sdk.session.certFingerprints,
      instanceId: message.headers.getString(EdgeHeader.TerminatorIdentity),
      peerData,
      timeoutMs: sdk.options.getCircuitTimeoutMs,
    });
  }

  #start(sdk: SdkChannel, connId: number, message: Message, sessionToken: string, circuit: CircuitCreated): void {
    const bySdk = message.headers.getBool(EdgeHeader.UseXgressToSdk) === true;
    const { circuitId, address } = circuit;
    const forwarder = this.#forwarder;
    const carriesDatagrams = saysDatagrams(message.headers.get(EdgeHeader.AppData));
    let connection: DataCircuit | SdkCircuit;
    try {
      connection = edgeCircuit(
        { forwarder, sdk, connId, sessionToken, circuitId, address, side: "initiator", carriesDatagrams },
        bySdk,
      );
    } catch (error) {
      this.#release(circuit);
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

  /** The client no longer wants the circuit that was built for it: its owner takes it down. */
  #release(circuit: CircuitCreated): void {
    const { circuitId, controllerId } = circuit;
    this.#control.sendFault({ subject: FaultSubject.IngressFault, ids: [circuitId], controllerId });
  }
}

/** What the client is told: session problems by the text clients know, everything else by the controller's. */
function refusalText(error: unknown): string {
  if (error instanceof EdgeCtrlError) {
    const session =
      error.edgeCode === EdgeErrorCode.InvalidSession || error.edgeCode === EdgeErrorCode.InvalidApiSession;
    return session ? INVALID_SESSION : error.text;
  }
  if (error instanceof NoControllerError) return NO_CONTROLLER_FOR_CIRCUIT;
  if (error instanceof RequestTimeoutError) return "the controller did not create the circuit in time";
  return error instanceof Error && error.message !== "" ? error.message : "the circuit could not be created";
}
