import { errorText, TimeSlice } from "@sallyport/async";
import { MAX_POSTURE_BYTES } from "@sallyport/posture";
import {
  decodeControl,
  EdgeErrorCode,
  EdgeType,
  edgeClientPb,
  Headers,
  type Logger,
  type Message,
} from "@sallyport/wire";
import {
  type Access,
  type AccessChange,
  type AccessClaims,
  type AccessVerdict,
  TokenRefusedError,
} from "../../access/ports.ts";
import { type Denial, DeniedError, denial, withDenial } from "../edge-messages.ts";
import type { Hosting } from "../hosting/hosting.ts";
import type { ChannelMember, SdkChannel } from "../sdk-channel.ts";
import { type TokenSession, tokenSession } from "../sdk-session.ts";
import { denialOf, type ServicePermissions } from "./service-permissions.ts";
import { ServiceSubscriptions } from "./service-subscriptions.ts";

interface TokenChannelsOptions {
  readonly access: Access;
  readonly permissions: ServicePermissions;
  readonly hosting: Hosting;
  readonly log: Logger;
}

const LOOK_MS = 1_000;

/**
 * The channels with access tokens. Their rights are looked at again whenever the data model, a revocation or the posture of
 * the device changes, and when time alone changes them: channels, circuits and listeners that are no longer allowed end
 * (docs/protocol/edge.md, "Access tokens").
 */
export class TokenChannels {
  readonly #o: TokenChannelsOptions;
  /** By API session. */
  readonly #sessions = new Map<string, Set<SdkChannel>>();
  /** When time alone may end something of a channel. */
  readonly #dueAt = new Map<SdkChannel, number>();
  /** Whose new token is being checked. */
  readonly #renewing = new Set<SdkChannel>();
  /** With whether the posture of the device is what changed. */
  readonly #toCheck = new Map<SdkChannel, boolean>();
  readonly #subscriptions: ServiceSubscriptions;
  readonly #timer: NodeJS.Timeout;
  readonly #stopFollowing: () => void;
  #isChecking = false;
  /** What SDKs send about their whole channel. */
  readonly messages: ReadonlyMap<number, (sdk: SdkChannel, message: Message) => void>;

  constructor(options: TokenChannelsOptions) {
    this.#o = options;
    this.#subscriptions = new ServiceSubscriptions(options.access, {
      dueBy: (sdk, at) => this.#dueBy(sdk, at),
      due: (sdk) => {
        this.#queue(sdk);
        void this.#run();
      },
    });
    this.messages = new Map<number, (sdk: SdkChannel, message: Message) => void>([
      [EdgeType.UpdateToken, (sdk, message) => this.#updateToken(sdk, message)],
      [EdgeType.PostureResponse, (sdk, message) => this.#posture(sdk, message)],
      [EdgeType.SubscribeToServiceUpdates, (sdk) => this.#subscriptions.subscribe(sdk)],
      [EdgeType.UnsubscribeFromServiceUpdates, (sdk) => this.#subscriptions.unsubscribe(sdk)],
      [EdgeType.ResyncPostureState, (sdk) => this.#subscriptions.resync(sdk)],
    ]);
    this.#stopFollowing = options.access.onChange((change) => this.#changed(change));
    this.#timer = setInterval(() => this.#look(), LOOK_MS);
    this.#timer.unref();
  }

  /** A channel was admitted; those without an access token are left alone. */
  add(sdk: SdkChannel): void {
    if (sdk.session.kind === "opaque") return;
    const { id, claims } = sdk.session;
    this.#sessions.getOrInsertComputed(id, () => new Set()).add(sdk);
    this.#dueAt.set(sdk, claims.endsAt);
    this.#o.access.joined(claims);
  }

  remove(sdk: SdkChannel): void {
    this.#dueAt.delete(sdk);
    this.#toCheck.delete(sdk);
    this.#subscriptions.remove(sdk);
    const { id } = sdk.session;
    const others = this.#sessions.get(id);
    if (others?.delete(sdk) !== true || others.size > 0) return;
    this.#sessions.delete(id);
    this.#o.access.left(id);
  }

  /** A channel has a circuit or a listener more, whose right may end by time alone. */
  granted(sdk: SdkChannel, { grant }: ChannelMember): void {
    const { session } = sdk;
    if (session.kind === "opaque") return;
    const verdict = this.#o.permissions.verdict(session, grant);
    if (verdict?.isAllowed === true) this.#dueBy(sdk, verdict.until);
    else if (verdict !== undefined) {
      this.#queue(sdk);
      // Not before who made it has told the SDK of it.
      setImmediate(() => void this.#run());
    }
  }

  close(): void {
    this.#stopFollowing();
    clearInterval(this.#timer);
    this.#toCheck.clear();
  }

  // Tokens and posture ------------------------------------------------------------------------------------------------

  #updateToken(sdk: SdkChannel, message: Message): void {
    const isFirst = !this.#renewing.has(sdk);
    this.#renewing.add(sdk);
    (isFirst ? this.#renew(sdk, message.body.toString("utf8")) : refusedAsSecond())
      .then(() => sdk.reply(message, { contentType: EdgeType.UpdateTokenSuccess }))
      .catch((error: unknown) => {
        const reason = error instanceof DeniedError ? error.denial : denial(EdgeErrorCode.Internal, "internal error");
        const { identityId } = sdk.session;
        this.#o.log.warn({ identityId, reason: errorText(error) }, "a new access token was refused");
        const body = Buffer.from(`code: ${reason.code}, message: ${reason.text}`, "utf8");
        sdk.reply(message, {
          contentType: EdgeType.UpdateTokenFailure,
          headers: withDenial(new Headers(), reason),
          body,
        });
        sdk.channel.close(new Error("the new access token was refused"));
      })
      .finally(() => this.#renewing.delete(sdk));
  }

  /** The certificate is not compared again: it may have been renewed with the token. @throws DeniedError */
  async #renew(sdk: SdkChannel, token: string): Promise<void> {
    const { session } = sdk;
    if (session.kind === "opaque") {
      const text = "current connection isn't authenticated via JWT";
      throw new DeniedError(denial(EdgeErrorCode.InvalidApiSessionType, text));
    }
    let claims: AccessClaims;
    try {
      claims = await this.#o.access.accessToken(token, { timeoutMs: sdk.options.lookupApiSessionTimeoutMs });
    } catch (error) {
      if (error instanceof TokenRefusedError) throw new DeniedError(refusalOf(error));
      throw error;
    }
    if (claims.apiSessionId !== session.id || claims.identityId !== session.identityId) {
      const text = "invalid token, API session id does not match";
      throw new DeniedError(denial(EdgeErrorCode.InvalidApiSession, text));
    }
    const channels = this.#sessions.get(session.id);
    // The last of them has gone meanwhile.
    if (channels === undefined) return;
    this.#o.access.joined(claims);
    for (const each of [...channels]) {
      each.session = tokenSession(claims, each.channel);
      this.#o.hosting.renewed(each);
      this.#check(each);
    }
  }

  #posture({ session, channel }: SdkChannel, { body }: Message): void {
    if (session.kind === "opaque") return;
    if (body.length > MAX_POSTURE_BYTES) {
      this.#o.log.warn(
        { identityId: session.identityId, bytes: body.length },
        "a posture report is too large and was ignored",
      );
      return;
    }
    try {
      this.#o.access.reported(session.claims, decodeControl(edgeClientPb.PostureResponsesSchema, body));
    } catch (error) {
      const fields = { identityId: session.identityId, peer: channel.peer.address, reason: errorText(error) };
      this.#o.log.warn(fields, "a posture report is unreadable");
    }
  }

  // Rights ------------------------------------------------------------------------------------------------------------

  #changed({ identities, sessions }: AccessChange): void {
    for (const [sessionId, channels] of this.#sessions) {
      const isPosture = sessions.has(sessionId);
      const isMeant = (sdk: SdkChannel) => identities === "all" || identities.has(sdk.session.identityId);
      for (const sdk of channels) if (isPosture || isMeant(sdk)) this.#queue(sdk, isPosture);
    }
    void this.#run();
  }

  #queue(sdk: SdkChannel, isPosture = false): void {
    this.#toCheck.set(sdk, isPosture || this.#toCheck.get(sdk) === true);
  }

  #look(): void {
    const now = Date.now();
    for (const [sdk, dueAt] of this.#dueAt) if (dueAt <= now) this.#queue(sdk);
    void this.#run();
  }

  #dueBy(sdk: SdkChannel, at: number | undefined): void {
    const dueAt = this.#dueAt.get(sdk);
    if (at !== undefined && dueAt !== undefined) this.#dueAt.set(sdk, Math.min(dueAt, at));
  }

  async #run(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    const slice = new TimeSlice();
    try {
      for (const [sdk, isPosture] of this.#toCheck) {
        this.#toCheck.delete(sdk);
        this.#check(sdk, isPosture);
        if (slice.isOver) await slice.pause();
      }
    } finally {
      this.#isChecking = false;
    }
  }

  /** Ends what is no longer allowed, and tells the SDK what else has changed. */
  #check(sdk: SdkChannel, isPosture = false): void {
    const { session } = sdk;
    if (session.kind === "opaque" || sdk.channel.isClosed) return;
    const reason = this.#whyEnded(session);
    if (reason !== undefined) {
      sdk.channel.close(new Error(reason));
      return;
    }
    this.#dueAt.set(sdk, session.claims.endsAt);
    const { permissions } = this.#o;
    const verdicts = new Map<string, AccessVerdict | undefined>();
    for (const member of sdk.members()) {
      const { grant } = member;
      const key = `${grant.type}/${grant.serviceId}`;
      const verdict = verdicts.getOrInsertComputed(key, () => permissions.verdict(session, grant));
      if (verdict === undefined) continue;
      if (verdict.isAllowed) {
        this.#dueBy(sdk, verdict.until);
        continue;
      }
      const { identityId } = session;
      const { serviceId, type } = grant;
      this.#o.log.info({ identityId, serviceId, type, reason: verdict.reason }, "access ended");
      member.close(denialOf(verdict));
    }
    this.#subscriptions.refresh(sdk, { owesStates: isPosture });
  }

  #whyEnded({ claims, identityId }: TokenSession): string | undefined {
    const { access } = this.#o;
    if (access.isRevoked(claims)) return "the access token was revoked";
    if (!access.isEnabled(identityId)) return "the identity was disabled or deleted";
    return claims.endsAt <= Date.now() ? "the access token has expired" : undefined;
  }
}

/** Each check may wait for a key, so there is one at a time. */
async function refusedAsSecond(): Promise<void> {
  throw new DeniedError(denial(EdgeErrorCode.Internal, "another token of this channel is being checked"));
}

/** The texts are those that clients of OpenZiti show. */
function refusalOf({ code }: TokenRefusedError): Denial {
  const texts: Partial<Record<TokenRefusedError["code"], string>> = {
    MALFORMED: "could not be parsed",
    REVOKED: "it was revoked",
    IDENTITY: "its identity is unknown or disabled",
  };
  return denial(EdgeErrorCode.InvalidApiSession, `invalid token, ${texts[code] ?? "invalid signature"}`);
}
