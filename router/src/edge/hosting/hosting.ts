import { errorText } from "@sallyport/async";
import {
  boundedLog,
  ConnType,
  EdgeErrorCode,
  EdgeHeader,
  EdgeType,
  Headers,
  knownPrecedence,
  type Logger,
  type Message,
  PeerData,
  Precedence,
  randomBase62Id,
  TerminatorResult,
} from "@sallyport/wire";
import type {
  ControlPlane,
  SdkCredentials,
  TerminatorAnswer,
  TerminatorQuery,
  TerminatorUpdate,
  TerminatorVerdict,
} from "../../control/control-plane.ts";
import type { ClientListener } from "../channel-members.ts";
import {
  connIdInUse,
  type Denial,
  DeniedError,
  denial,
  INVALID_SESSION,
  MAX_SESSION_TOKEN,
  NO_CONTROLLER_FOR_TERMINATOR,
  sessionEnded,
  stateClosed,
  stateClosedFor,
  tooManyWaiting,
} from "../edge-messages.ts";
import type { SdkChannel } from "../sdk-channel.ts";
import { type Grant, isOf, opaqueGrant } from "../sdk-session.ts";
import type { ServicePermissions } from "../tokens/service-permissions.ts";
import { HealthReports, PacedRefusals } from "./client-pace.ts";

/** A listener of an SDK on this router, and the terminator that stands for it at the controller. */
export interface SdkBinding extends ClientListener {
  /** Chosen by this router; also the terminator's address. */
  readonly terminatorId: string;
  readonly sdk: SdkChannel;
  /** Identity and listener id: the same listener may come back over another channel. Absent when the SDK gave none. */
  readonly listenerKey: string | undefined;
  readonly instanceId: string;
  /** The SDK lets the router choose ids of incoming connections. */
  readonly routerProvidedConnIds: boolean;
  /** The SDK does the flow control of its circuits itself. */
  readonly flowControlBySdk: boolean;
  readonly supportsInspect: boolean;
  readonly wantsBindSuccess: boolean;
  /** Public key for end-to-end encryption, which the dialing side gets unless the dial brings another. */
  readonly publicKey: Buffer | undefined;
  /** Aborted when the listener ends: dials to it fail at once. */
  readonly ended: AbortController;
}

const LEGACY_PREFIX = "hosted:";
const INSPECT_TIMEOUT_MS = 10_000;
const MAX_COST = 0xffff;

/** Headers of a bind that are kept with the listener, or by the controller, and what it takes of one. */
const FIELDS = [
  EdgeHeader.ListenerId,
  EdgeHeader.TerminatorIdentity,
  EdgeHeader.TerminatorIdentitySecret,
  EdgeHeader.PublicKey,
] as const;
const MAX_FIELD = 4_096;

/** The text of a listener that another connection of the same client took over. */
const TAKEN_OVER = "the listener was taken over by a newer connection";

type Refuse = (reason: string | Denial) => void;

/** What a client changes of its terminator. */
type BindChange = Pick<TerminatorUpdate, "cost" | "precedence">;

/** Whether a terminator address is the terminator's id, and not the old form that holds a session token. */
export function isTerminatorId(address: string): boolean {
  return !address.startsWith(LEGACY_PREFIX);
}

/**
 * The listeners of all SDKs on this router. A bind is confirmed at once and its terminator created behind it; a client
 * that comes back with the same listener id keeps its terminator (docs/protocol/data-path.md, "Hosting").
 */
export class Hosting {
  readonly #control: ControlPlane;
  readonly #permissions: ServicePermissions;
  readonly #log: Logger;
  readonly #byIdentity = new Map<string, Set<SdkBinding>>();
  readonly #byTerminator = new Map<string, SdkBinding>();
  readonly #byListener = new Map<string, SdkBinding>();
  /** Of bindings for which the controller is being asked: what has changed since. */
  readonly #changes = new Map<SdkBinding, BindChange>();
  readonly #health: HealthReports<SdkBinding>;
  readonly #refusals = new PacedRefusals();

  constructor(control: ControlPlane, permissions: ServicePermissions, log: Logger) {
    this.#control = control;
    this.#permissions = permissions;
    this.#health = new HealthReports((binding, checkPassed) =>
      control.healthEvent({ ...this.#credentials(binding), checkPassed }),
    );
    this.#log = boundedLog(log);
  }

  get count(): number {
    return this.#byTerminator.size;
  }

  /** The listener a terminator address means: the terminator's id, or `hosted:` and a session token. */
  find(address: string): SdkBinding | undefined {
    const known = this.#byTerminator.get(address);
    if (known !== undefined) return known;
    const token = address.startsWith(LEGACY_PREFIX) ? address.slice(LEGACY_PREFIX.length) : address;
    for (const binding of this.#byTerminator.values()) if (binding.grant.sessionToken === token) return binding;
    return undefined;
  }

  bind(sdk: SdkChannel, connId: number, message: Message): void {
    const refuse: Refuse = (reason) => this.#refusals.send(sdk, stateClosedFor(message, connId, reason));
    const grant = opaqueGrant(message.body.toString("utf8"), "Bind");
    const obstacle = this.#obstacle(message, grant);
    if (obstacle !== undefined) {
      refuse(obstacle);
      return;
    }
    if (sdk.session.kind === "opaque") this.#take(sdk, connId, message, grant, refuse);
    else this.#askFirst(sdk, connId, message, grant, refuse);
  }

  /** The bearer of an access token hosts what the data model grants. */
  #askFirst(sdk: SdkChannel, connId: number, message: Message, unread: Grant, refuse: Refuse): void {
    const { session } = sdk;
    if (session.kind === "opaque") return;
    const abort = new AbortController();
    if (sdk.isWaitingForMost) {
      refuse(tooManyWaiting(sdk.options.maxConnecting));
      return;
    }
    // A listener may be bound again, but not twice at once.
    if (!sdk.addConnecting(connId, { grant: unread, abort })) {
      refuse(connIdInUse(connId));
      return;
    }
    this.#permissions
      .ofToken(session, unread.sessionToken, "Bind", abort.signal)
      .then((grant) => {
        abort.signal.throwIfAborted();
        sdk.removeConnecting(connId);
        if (!sdk.channel.isClosed) this.#take(sdk, connId, message, grant, refuse);
      })
      .catch((error: unknown) => {
        sdk.removeConnecting(connId);
        this.#log.debug({ err: error, identityId: session.identityId, connId }, "bind refused");
        refuse(error instanceof DeniedError ? error.denial : errorText(error));
      });
  }

  #take(sdk: SdkChannel, connId: number, message: Message, grant: Grant, refuse: Refuse): void {
    const { identityId } = sdk.session;
    const listenerId = message.headers.get(EdgeHeader.ListenerId);
    const listenerKey = listenerId === undefined ? undefined : `${identityId}/${listenerId.toString("hex")}`;
    const previous = listenerKey === undefined ? undefined : this.#byListener.get(listenerKey);
    const isDuplicate =
      previous?.sdk === sdk && previous.connId === connId && previous.grant.sessionToken === grant.sessionToken;
    if (!isDuplicate && sdk.isTaken(connId)) {
      refuse(connIdInUse(connId));
      return;
    }
    const own = this.#byIdentity.get(identityId) ?? new Set();
    if (previous === undefined && own.size >= sdk.options.maxListeners) {
      refuse(`this client has ${own.size} listeners here, which is the most one may have`);
      return;
    }
    const binding = this.#bindingOf(sdk, connId, message, grant, previous?.terminatorId, listenerKey);
    if (previous !== undefined) this.#replace(previous, isDuplicate);
    this.#byIdentity.set(identityId, own.add(binding));
    this.#byTerminator.set(binding.terminatorId, binding);
    if (listenerKey !== undefined) this.#byListener.set(listenerKey, binding);
    sdk.addListener(binding);
    this.#confirm(binding, message);
    this.#create(binding, message).catch((error: unknown) => {
      if (!binding.ended.signal.aborted)
        this.#log.error({ err: error, terminatorId: binding.terminatorId }, "creating a terminator failed");
    });
  }

  /** Why a bind is refused, whatever else this client hosts. */
  #obstacle(message: Message, { sessionToken, sessionId }: Grant): string | Denial | undefined {
    if (!this.#control.isConnected()) return NO_CONTROLLER_FOR_TERMINATOR;
    const isRemoved = (name: string | undefined) => name !== undefined && this.#control.wasSessionRemoved(name);
    if (sessionToken.length > MAX_SESSION_TOKEN || isRemoved(sessionToken) || isRemoved(sessionId))
      return denial(EdgeErrorCode.InvalidSession, INVALID_SESSION);
    const tooLong = FIELDS.find((key) => (message.headers.get(key)?.length ?? 0) > MAX_FIELD);
    return tooLong === undefined ? undefined : `header ${tooLong} is longer than ${MAX_FIELD} bytes`;
  }

  /** The API session of a channel has another token: what is created or changed from now on is so by that. */
  renewed(sdk: SdkChannel): void {
    for (const binding of this.#byIdentity.get(sdk.session.identityId) ?? []) {
      if (binding.sdk !== sdk) continue;
      const { terminatorId, ...credentials } = this.#credentials(binding);
      this.#control.renewCredentials(terminatorId, credentials);
    }
  }

  #remove(binding: SdkBinding): void {
    binding.sdk.removeListener(binding);
    this.#forget(binding);
    binding.ended.abort();
    if (binding.listenerKey !== undefined && this.#byListener.get(binding.listenerKey) === binding) {
      this.#byListener.delete(binding.listenerKey);
    }
    if (this.#byTerminator.get(binding.terminatorId) !== binding) return;
    this.#byTerminator.delete(binding.terminatorId);
    this.#control.removeTerminators([binding.terminatorId]);
  }

  /** Ends a listener and tells its SDK why. */
  close(binding: SdkBinding, reason: string | Denial): void {
    binding.sdk.send(stateClosed(binding.connId, reason));
    this.#remove(binding);
  }

  /** A bind session was removed, which its token or its id names. */
  closeSession(tokenOrId: string): void {
    for (const binding of [...this.#byTerminator.values()]) {
      if (isOf(binding.grant, tokenOrId)) this.close(binding, sessionEnded());
    }
  }

  /** The controller no longer has a terminator that it had confirmed. */
  terminatorLost(terminatorId: string, outcome: TerminatorAnswer): void {
    const binding = this.#byTerminator.get(terminatorId);
    if (binding !== undefined) this.close(binding, reasonOf(outcome));
  }

  #change(binding: SdkBinding, message: Message): void {
    const cost = message.headers.getU16(EdgeHeader.Cost);
    const precedence = message.headers.getByte(EdgeHeader.Precedence);
    if (cost === undefined && precedence === undefined) return;
    const change: BindChange = {
      ...(cost === undefined ? {} : { cost: Math.min(cost, MAX_COST) }),
      ...(precedence === undefined ? {} : { precedence: knownPrecedence(precedence) }),
    };
    const waiting = this.#changes.get(binding);
    this.#changes.set(binding, { ...waiting, ...change });
    // One at a time: however often a client changes them, the controller is asked no faster than it answers.
    if (waiting === undefined) void this.#update(binding, change);
  }

  async #update(binding: SdkBinding, first: BindChange): Promise<void> {
    let change: BindChange | undefined = first;
    while (change !== undefined && Object.keys(change).length > 0) {
      this.#changes.set(binding, {});
      try {
        await this.#control.updateTerminator({ ...this.#credentials(binding), ...change });
      } catch (error) {
        const { terminatorId } = binding;
        this.#log.warn({ err: error, terminatorId }, "the controller did not take the new cost or precedence");
      }
      change = binding.ended.signal.aborted ? undefined : this.#changes.get(binding);
    }
    this.#changes.delete(binding);
  }

  /** Whether a terminator the controller asks about exists here, asking the SDK itself when it can answer. */
  async validate(terminator: TerminatorQuery, fixInvalid: boolean): Promise<TerminatorVerdict> {
    const binding = this.find(terminator.address);
    if (binding === undefined) return { valid: false, reason: 1, detail: "no listener with this terminator id here" };
    if (!binding.supportsInspect) return { valid: true, detail: "valid" };
    try {
      const answer = await binding.sdk.channel.request(
        { contentType: EdgeType.ConnInspectRequest, headers: new Headers().setU32(EdgeHeader.ConnId, binding.connId) },
        { timeoutMs: INSPECT_TIMEOUT_MS, signal: binding.ended.signal },
      );
      const detail = answer.body.toString("utf8");
      if (answer.headers.getByte(EdgeHeader.ConnType) === ConnType.Bind) return { valid: true, detail };
      if (fixInvalid) this.close(binding, `the client does not know the listener: ${detail}`);
      return { valid: false, reason: 1, detail };
    } catch (error) {
      return { valid: true, detail: `not checked: ${errorText(error)}` };
    }
  }

  #bindingOf(
    sdk: SdkChannel,
    connId: number,
    message: Message,
    grant: Grant,
    terminatorId: string | undefined,
    listenerKey: string | undefined,
  ): SdkBinding {
    const h = message.headers;
    const routerProvidedConnIds = h.getBool(EdgeHeader.RouterProvidedConnId) ?? false;
    const binding: SdkBinding = {
      terminatorId: terminatorId ?? randomBase62Id(),
      sdk,
      connId,
      grant,
      listenerKey,
      instanceId: h.getString(EdgeHeader.TerminatorIdentity) ?? "",
      routerProvidedConnIds,
      // A client that chooses ids itself is asked for them by the dial: too late to be told of a circuit under its id.
      flowControlBySdk: routerProvidedConnIds && (h.getBool(EdgeHeader.UseXgressToSdk) ?? false),
      supportsInspect: h.getBool(EdgeHeader.SupportsInspect) ?? false,
      wantsBindSuccess: h.getBool(EdgeHeader.SupportsBindSuccess) ?? false,
      publicKey: h.get(EdgeHeader.PublicKey),
      ended: new AbortController(),
      update: (change) => this.#change(binding, change),
      healthEvent: (event) => this.#health.report(binding, event.headers.getBool(EdgeHeader.HealthStatus) ?? false),
      close: (reason) => this.close(binding, reason),
      remove: () => this.#remove(binding),
    };
    return binding;
  }

  /** The listener goes on in a newer binding: the old one only stops being it, its terminator stays. */
  #replace(previous: SdkBinding, isDuplicate: boolean): void {
    previous.sdk.removeListener(previous);
    this.#forget(previous);
    previous.ended.abort();
    if (!isDuplicate) previous.sdk.send(stateClosed(previous.connId, TAKEN_OVER));
  }

  #forget(binding: SdkBinding): void {
    const { identityId } = binding.sdk.session;
    const own = this.#byIdentity.get(identityId);
    own?.delete(binding);
    if (own?.size === 0) this.#byIdentity.delete(identityId);
  }

  #confirm(binding: SdkBinding, message: Message): void {
    const headers = new Headers().setU32(EdgeHeader.ConnId, binding.connId);
    if (binding.routerProvidedConnIds) headers.setBool(EdgeHeader.RouterProvidedConnId, true);
    binding.sdk.reply(message, { contentType: EdgeType.StateConnected, headers });
  }

  async #create(binding: SdkBinding, message: Message): Promise<void> {
    const h = message.headers;
    const peerData = new Map<number, Buffer>();
    if (binding.publicKey !== undefined) peerData.set(PeerData.PublicKey, binding.publicKey);
    const outcome = await this.#control.createTerminator(
      {
        address: binding.terminatorId,
        ...this.#credentials(binding),
        peerData,
        cost: h.getU16(EdgeHeader.Cost) ?? 0,
        precedence: knownPrecedence(h.getByte(EdgeHeader.Precedence) ?? Precedence.Default),
        // Left out when empty: an inspection shows no instance then.
        instanceId: binding.instanceId || undefined,
        instanceSecret: h.get(EdgeHeader.TerminatorIdentitySecret),
      },
      { signal: binding.ended.signal },
    );
    if (this.#byTerminator.get(binding.terminatorId) !== binding) return;
    if (outcome.result !== TerminatorResult.Success) {
      this.close(binding, reasonOf(outcome));
      return;
    }
    if (binding.wantsBindSuccess) {
      const headers = new Headers().setU32(EdgeHeader.ConnId, binding.connId);
      binding.sdk.send({ contentType: EdgeType.BindSuccess, headers });
    }
    if (binding.listenerKey === undefined) this.#closeOlder(binding);
  }

  /** Clients too old for listener ids leave their old listener behind when they bind again. */
  #closeOlder(binding: SdkBinding): void {
    for (const other of [...this.#byTerminator.values()]) {
      const same = other.grant.sessionToken === binding.grant.sessionToken && other.instanceId === binding.instanceId;
      if (other !== binding && same && other.listenerKey === undefined) this.close(other, TAKEN_OVER);
    }
  }

  #credentials(binding: SdkBinding): SdkCredentials & { terminatorId: string } {
    return {
      terminatorId: binding.terminatorId,
      sessionToken: binding.grant.sessionToken,
      apiSessionToken: binding.sdk.session.token,
      fingerprints: binding.sdk.session.fingerprints,
    };
  }
}

function reasonOf({ result, message, errorCode, retryHint }: TerminatorAnswer): string | Denial {
  const isSession = result === TerminatorResult.FailedInvalidSession;
  const text = isSession ? INVALID_SESSION : message || "the controller refused the terminator";
  return errorCode === undefined ? text : denial(errorCode, text, { retryHint });
}
