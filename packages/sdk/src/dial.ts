import { randomBytes } from "node:crypto";
import { errorText } from "@sallyport/async";
import {
  ConnType,
  EdgeErrorCode,
  EdgeHeader,
  EdgeType,
  Headers,
  type Message,
  type Outgoing,
  ROUTER_STOPPING,
  ServiceIdentifierType,
} from "@sallyport/wire";
import { carrierOn } from "./circuit/carrier-choice.ts";
import { MessageConnection } from "./circuit/message-connection.ts";
import type { KeyPair, Sodium } from "./crypto/sodium.ts";
import { type EdgeChannel, type EdgeEndpoint, HeldId } from "./edge-channel.ts";
import { DialError, EncryptionError } from "./errors.ts";

/** What a dial asks a router for. */
export interface ConnectRequest {
  readonly service: string;
  /** What allows the dial: the token of a dial session, or our access token, by which the router decides about the service. */
  readonly by: { readonly sessionToken: string } | { readonly serviceId: string };
  /** Our identity's name: the host learns it. */
  readonly callerId: string;
  /** Set when the service requires end-to-end encryption. */
  readonly sodium?: Sodium | undefined;
  /** Address one instance of the service by its id. */
  readonly instance?: string | undefined;
  readonly appData?: Uint8Array | undefined;
  /** Messages are datagrams, not pieces of a stream. */
  readonly datagrams?: boolean | undefined;
}

/** Why a dial did not lead to a connection, for who decides about trying again; a router that is leaving takes no more dials. */
export type DialFailure = "refused" | "posture" | "leaving" | "lost" | "unencrypted";

const codes = {
  refused: "DIAL_REFUSED",
  posture: "POSTURE_FAILED",
  leaving: "ROUTER_LOST",
  lost: "ROUTER_LOST",
  unencrypted: "NO_HOST_KEY",
} as const;

/** A router that has not answered a dial after this long is asked whether it is there at all, and how long it may take. */
const DOUBT_AFTER_MS = 2_000;
const DOUBT_TIMEOUT_MS = 3_000;
/** A router answers a dial within this time, or never. */
const ANSWER_TIMEOUT_MS = 60_000;

/** A dial that failed at the router, with the router's words. */
export class RouterDialError extends DialError {
  readonly failure: DialFailure;
  /** What the router said. */
  readonly text: string;
  /** Its code, see `EdgeErrorCode`; undefined when it gave none. */
  readonly edgeCode: number | undefined;
  /** Ids of the posture checks that fail, with `POSTURE_FAILED` and a router that names them. */
  readonly failingPostureChecks: readonly string[];

  constructor(failure: DialFailure, service: string, router: string, refusal: Refusal, cause?: unknown) {
    const { text, edgeCode, failingPostureChecks = [] } = refusal;
    const checks = failingPostureChecks.length === 0 ? "" : ` (${failingPostureChecks.join(", ")})`;
    super(codes[failure], `${service} could not be dialled through router ${router}: ${text}${checks}`, { cause });
    this.failure = failure;
    this.text = text;
    this.edgeCode = edgeCode;
    this.failingPostureChecks = failingPostureChecks;
  }
}

interface Refusal {
  readonly text: string;
  readonly edgeCode?: number | undefined;
  readonly failingPostureChecks?: readonly string[];
}

/**
 * Makes a connection on one router (docs/protocol/edge.md "Dialling").
 *
 * @throws RouterDialError, EncryptionError, or the signal's reason
 */
export async function dialThrough(
  edge: EdgeChannel,
  request: ConnectRequest,
  signal: AbortSignal,
): Promise<MessageConnection> {
  signal.throwIfAborted();
  return await new DialAttempt(edge, request, signal).outcome;
}

class DialAttempt implements EdgeEndpoint {
  readonly connType = ConnType.Dial;
  readonly #edge: EdgeChannel;
  readonly #request: ConnectRequest;
  readonly #signal: AbortSignal;
  readonly #settle = Promise.withResolvers<MessageConnection>();
  readonly outcome = this.#settle.promise;
  readonly #keys: KeyPair | undefined;
  readonly #id: number;
  readonly #doubt: NodeJS.Timeout;
  readonly #onAbort = () => this.#abort();

  constructor(edge: EdgeChannel, request: ConnectRequest, signal: AbortSignal) {
    this.#edge = edge;
    this.#request = request;
    this.#signal = signal;
    this.#keys = request.sodium?.createKeyPair();
    this.#id = edge.register(this);
    this.#doubt = setTimeout(() => void edge.probe(DOUBT_TIMEOUT_MS), DOUBT_AFTER_MS);
    this.#doubt.unref();
    signal.addEventListener("abort", this.#onAbort, { once: true });
    try {
      edge.channel.send(this.#message());
    } catch (error) {
      this.onLost(error instanceof Error ? error : undefined);
    }
  }

  describe(): string {
    return `dialling ${this.#request.service}`;
  }

  /** No data can come before the answer. */
  onData(): void {}

  onCircuitFrame(): void {}

  onMessage(message: Message): void {
    if (message.contentType === EdgeType.StateConnected) this.#connected(message.headers);
    else if (message.contentType === EdgeType.StateClosed) {
      const refusal = refusalOf(message);
      const isPosture = refusal.edgeCode === EdgeErrorCode.PostureCheckFailed;
      if (refusal.text.startsWith(ROUTER_STOPPING)) this.#fail("leaving", refusal);
      else this.#fail(isPosture ? "posture" : "refused", refusal);
    }
  }

  onLost(reason: Error | undefined): void {
    this.#fail("lost", { text: reason === undefined ? "the connection to it ended" : errorText(reason) }, reason);
  }

  #message(): Outgoing {
    const { by } = this.#request;
    const headers = this.#headers();
    if ("sessionToken" in by)
      return { contentType: EdgeType.Connect, headers, body: Buffer.from(by.sessionToken, "utf8") };
    headers.setString(EdgeHeader.ServiceId, by.serviceId);
    headers.setByte(EdgeHeader.ServiceIdentifierType, ServiceIdentifierType.Id);
    return { contentType: EdgeType.ConnectV2, headers };
  }

  #headers(): Headers {
    const { instance, appData, callerId } = this.#request;
    const headers = new Headers()
      .setU32(EdgeHeader.ConnId, this.#id)
      .setString(EdgeHeader.CallerId, callerId)
      .setBool(EdgeHeader.UseXgressToSdk, this.#edge.takesFlowControl)
      .setString(EdgeHeader.ConnectionMarker, randomBytes(6).toString("base64url"));
    if (this.#keys !== undefined) headers.set(EdgeHeader.PublicKey, this.#keys.publicKey);
    if (instance !== undefined) headers.setString(EdgeHeader.TerminatorIdentity, instance);
    if (appData !== undefined) headers.set(EdgeHeader.AppData, appData);
    return headers;
  }

  #connected(headers: Headers): void {
    const { service, callerId, sodium, datagrams } = this.#request;
    const hostKey = headers.get(EdgeHeader.PublicKey);
    if (this.#keys !== undefined && hostKey === undefined) {
      this.#edge.sendClosed(this.#id);
      const text = "the service requires encryption but its host gave no key; update or restart the host";
      this.#fail("unencrypted", { text });
      return;
    }
    try {
      const crypto =
        this.#keys === undefined || sodium === undefined || hostKey === undefined
          ? undefined
          : { sodium, keys: sodium.sessionKeys("client", this.#keys, hostKey) };
      const circuitId = headers.getString(EdgeHeader.CircuitId) ?? "";
      const connection = new MessageConnection({
        edge: this.#edge,
        id: this.#id,
        info: { service, circuitId, localName: callerId, remoteName: service },
        crypto,
        datagrams,
        // From here on the id is the connection's: data may follow in the same read.
        carrier: (receiver) => carrierOn(this.#edge, this.#id, { circuitId, side: "initiator", headers }, receiver),
      });
      this.#done();
      connection.begin();
      this.#settle.resolve(connection);
    } catch (cause) {
      this.#edge.sendClosed(this.#id);
      this.#end(new EncryptionError("KEY_EXCHANGE_FAILED", `${service}: the host's key cannot be used`, { cause }));
    }
  }

  #abort(): void {
    this.#done();
    // Before its answer a router need not know the id: it would miss the close, and make the connection nevertheless.
    new HeldId(this.#edge, this.#id, {
      limitMs: ANSWER_TIMEOUT_MS,
      describe: () => "a dial that was given up",
      isLast: (message) => {
        if (message.contentType === EdgeType.StateConnected) this.#edge.sendClosed(this.#id);
        return true;
      },
    });
    this.#settle.reject(this.#signal.reason);
  }

  #fail(failure: DialFailure, refusal: Refusal, cause?: unknown): void {
    this.#end(new RouterDialError(failure, this.#request.service, this.#edge.router, refusal, cause));
  }

  #end(error: unknown): void {
    this.#done();
    this.#edge.remove(this.#id, this);
    this.#settle.reject(error);
  }

  #done(): void {
    clearTimeout(this.#doubt);
    this.#signal.removeEventListener("abort", this.#onAbort);
  }
}

function refusalOf({ headers, body }: Message): Refusal {
  return {
    text: body.toString("utf8") || "no reason given",
    edgeCode: headers.getU32(EdgeHeader.ErrorCode),
    failingPostureChecks: failingChecks(headers.getString(EdgeHeader.StructuredError)),
  };
}

/** @param json of a structured error; the text and the code say enough when it cannot be read */
function failingChecks(json = ""): readonly string[] {
  let error: unknown;
  try {
    error = JSON.parse(json);
  } catch {
    return [];
  }
  if (typeof error !== "object" || error === null || !("failingPostureCheckIds" in error)) return [];
  const ids = error.failingPostureCheckIds;
  return Array.isArray(ids) ? ids.filter((id) => typeof id === "string") : [];
}
