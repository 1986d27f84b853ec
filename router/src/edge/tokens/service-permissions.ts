import { nextCall } from "@sallyport/async";
import { EdgeErrorCode, PeerData, type Permission, RetryHint } from "@sallyport/wire";
import { type Access, type AccessVerdict, TokenRefusedError } from "../../access/ports.ts";
import { type Denial, DeniedError, denial, INVALID_SESSION } from "../edge-messages.ts";
import { type Grant, isJwt, type TokenSession } from "../sdk-session.ts";

/**
 * How long a request waits for a policy that would allow it: a client may hear of one from its controller before this router does.
 */
const MODEL_LAG_MS = 1_000;

/**
 * What the bearer of an access token may dial and host here, by the data model (docs/protocol/edge.md, "Access tokens"). Sessions with
 * opaque tokens are not asked about: their controllers decide.
 */
export class ServicePermissions {
  readonly #access: Access;

  constructor(access: Access) {
    this.#access = access;
  }

  /** @throws DeniedError, or the signal's reason */
  async ofToken(session: TokenSession, token: string, type: Permission, signal: AbortSignal): Promise<Grant> {
    if (!isJwt(token)) throw new DeniedError(denial(EdgeErrorCode.InvalidSession, INVALID_SESSION));
    try {
      const { sessionId, serviceId, type: isFor } = await this.#access.serviceToken(token, session.claims);
      if (isFor !== type) throw new DeniedError(denial(EdgeErrorCode.WrongSessionType, "incorrect session type"));
      return await this.#allowed(session, { sessionToken: token, sessionId, type, serviceId }, signal);
    } catch (error) {
      if (!(error instanceof TokenRefusedError)) throw error;
      throw new DeniedError(denial(EdgeErrorCode.InvalidSession, INVALID_SESSION));
    }
  }

  /** A dial without a session. @throws DeniedError, or the signal's reason */
  async ofService(session: TokenSession, service: { id: string } | { name: string }, signal: AbortSignal) {
    const serviceId = await this.#soon(
      () => ("id" in service ? service.id : this.#access.serviceIdOf(service.name)),
      (id) => id !== undefined,
      signal,
    );
    if (serviceId === undefined) throw new DeniedError(denialOf(UNKNOWN_SERVICE));
    const grant: Grant = { sessionToken: "", sessionId: undefined, type: "Dial", serviceId };
    return await this.#allowed(session, grant, signal);
  }

  /** Why a grant does not hold at this moment; undefined: it holds, or a controller decides about it. */
  denial(session: TokenSession, grant: Grant): Denial | undefined {
    return denialBy(this.verdict(session, grant));
  }

  verdict({ identityId, id: apiSessionId }: TokenSession, { serviceId, type }: Grant): AccessVerdict | undefined {
    return serviceId === undefined ? undefined : this.#access.may({ identityId, apiSessionId, serviceId, type });
  }

  /** What the host of a service is told about the dialling identity. */
  dialer({ identityId }: TokenSession): Map<number, Buffer> {
    const name = this.#access.identityName(identityId);
    const told = new Map([[PeerData.DialerIdentityId as number, Buffer.from(identityId, "utf8")]]);
    if (name !== undefined) told.set(PeerData.DialerIdentityName, Buffer.from(name, "utf8"));
    return told;
  }

  async #allowed(session: TokenSession, grant: Grant, signal: AbortSignal): Promise<Grant> {
    const verdict = await this.#soon(
      () => this.verdict(session, grant),
      (found) => !mayCome(found),
      signal,
    );
    const reason = denialBy(verdict);
    if (reason !== undefined) throw new DeniedError(reason);
    return grant;
  }

  /** Looks again after each change until what it finds will do, for as long as a change may take. */
  async #soon<T>(find: () => T, willDo: (found: T) => boolean, signal: AbortSignal): Promise<T> {
    const until = performance.now() + MODEL_LAG_MS;
    for (;;) {
      const found = find();
      const leftMs = until - performance.now();
      if (willDo(found) || leftMs <= 0) return found;
      await nextCall((listener) => this.#access.onChange(listener), leftMs, signal);
    }
  }
}

type Refusal = Extract<AccessVerdict, { isAllowed: false }>;

const UNKNOWN_SERVICE: Refusal = { isAllowed: false, reason: "unknown service", failingCheckIds: [] };

function mayCome(verdict: AccessVerdict | undefined): boolean {
  if (verdict === undefined || verdict.isAllowed) return false;
  return verdict.reason === "unknown service" || verdict.reason === "no policy";
}

function denialBy(verdict: AccessVerdict | undefined): Denial | undefined {
  return verdict === undefined || verdict.isAllowed ? undefined : denialOf(verdict);
}

export function denialOf({ reason, failingCheckIds }: Refusal): Denial {
  switch (reason) {
    case "unknown service":
      return denial(EdgeErrorCode.InvalidService, "service not found");
    case "no identity":
    case "disabled":
      return denial(EdgeErrorCode.InvalidApiSession, "the identity is unknown or disabled");
    case "no policy":
      // Another policy may come: a client that never tried again would not find it.
      return denial(EdgeErrorCode.AccessDenied, "access denied: no policy grants it", {
        retryHint: RetryHint.StartOver,
      });
    case "posture":
      return denial(EdgeErrorCode.PostureCheckFailed, "access denied: posture checks fail", { failingCheckIds });
  }
}
