import { errorText, Listeners, nextCall } from "@sallyport/async";
import { evaluate, expiresAt, reportsOfWire, withTotp } from "@sallyport/posture";
import type { edgeClientPb, edgeCtrlPb, Logger } from "@sallyport/wire";
import { CLOCK_LEEWAY_MS, type NetworkModel, type Touched } from "../control/data-model/network-model.ts";
import { checksOf, viewOf } from "./identity-view.ts";
import {
  type Access,
  type AccessChange,
  type AccessClaims,
  type AccessQuestion,
  type AccessVerdict,
  type IdentityView,
  type ServiceClaims,
  TokenRefusedError,
} from "./ports.ts";
import { PostureStore } from "./posture-store.ts";
import { TokenVerifier } from "./token-verifier.ts";

/** The data model as it is followed. */
export interface ModelSource {
  readonly model: NetworkModel;
  readonly hasModel: boolean;
  publicKey(kid: string): edgeCtrlPb.DataState_PublicKey | undefined;
  onChange(listener: (model: NetworkModel, touched: Touched) => void): () => void;
}

interface RouterAccessOptions {
  readonly source: ModelSource;
  readonly log: Logger;
  /** For tests. */
  readonly now?: () => number;
}

const TELL_MS = 100;
const SWEEP_MS = 30_000;
/** TOTP tokens of one report that are verified. */
const MAX_TOTP_TOKENS = 10;

/** Decides by the data model, the tokens and what devices reported. */
export class RouterAccess implements Access {
  readonly #source: ModelSource;
  readonly #log: Logger;
  readonly #now: () => number;
  readonly #verifier: TokenVerifier;
  readonly #posture = new PostureStore();
  readonly #listeners = new Listeners<[change: AccessChange]>();
  readonly #stopFollowing: () => void;
  readonly #sweeps: NodeJS.Timeout;
  #pending: { identities: Set<string> | "all"; sessions: Set<string> } | undefined;
  #telling: NodeJS.Timeout | undefined;
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor({ source, log, now = Date.now }: RouterAccessOptions) {
    this.#source = source;
    this.#log = log;
    this.#now = now;
    this.#verifier = new TokenVerifier({ keyOf: (kid) => source.publicKey(kid), now, log });
    this.#stopFollowing = source.onChange((_model, { identities, sessions, haveKeysChanged }) => {
      if (haveKeysChanged) this.#verifier.keysChanged();
      this.#changed(identities, sessions);
    });
    this.#sweeps = setInterval(() => {
      this.#posture.sweep(this.#now());
      source.model.sweepRevocations(this.#now());
    }, SWEEP_MS);
    this.#sweeps.unref();
  }

  get isReady(): boolean {
    return this.#source.hasModel;
  }

  async accessToken(token: string, o: { signal?: AbortSignal; timeoutMs: number }): Promise<AccessClaims> {
    const until = performance.now() + o.timeoutMs;
    for (;;) {
      try {
        return await this.#admitted(token);
      } catch (error) {
        const leftMs = until - performance.now();
        if (!this.#mayCome(error) || leftMs <= 0) throw error;
        await nextCall((listener) => this.#source.onChange(listener), leftMs, o.signal);
      }
    }
  }

  async serviceToken(token: string, of: AccessClaims): Promise<ServiceClaims> {
    const claims = await this.#verifier.service(token);
    if (claims.apiSessionId !== of.apiSessionId || claims.identityId !== of.identityId) {
      throw new TokenRefusedError("OTHER_SESSION", "the service token is of another API session");
    }
    return claims;
  }

  isRevoked({ tokenId, apiSessionId, identityId, issuedAt }: AccessClaims): boolean {
    const { revocations } = this.#source.model;
    const counts = (id: string, type: string) => {
      const revocation = revocations.get(id);
      // A controller that does not say the type names tokens and API sessions.
      if (revocation === undefined || !(revocation.type === type || revocation.type === "")) return undefined;
      return revocation.expiresAt + CLOCK_LEEWAY_MS > this.#now() ? revocation : undefined;
    };
    if (counts(tokenId, "JTI") !== undefined || counts(apiSessionId, "API_SESSION") !== undefined) return true;
    const ofIdentity = counts(identityId, "IDENTITY");
    if (ofIdentity?.type !== "IDENTITY") return false;
    const { issuedBefore = Number.POSITIVE_INFINITY } = ofIdentity;
    return Math.floor(issuedAt / 1000) <= Math.floor(issuedBefore / 1000);
  }

  isEnabled(identityId: string): boolean {
    return this.#source.model.identities.get(identityId)?.isDisabled === false;
  }

  may({ identityId, apiSessionId, serviceId, type }: AccessQuestion): AccessVerdict {
    const { model } = this.#source;
    const identity = model.identities.get(identityId);
    if (!model.services.has(serviceId)) return refused("unknown service");
    if (identity === undefined) return refused("no identity");
    if (identity.isDisabled) return refused("disabled");
    const failing = new Set<string>();
    let isGranted = false;
    for (const policy of model.granting(identityId, serviceId, type)) {
      isGranted = true;
      if (policy.checkIds.size === 0) return { isAllowed: true };
      const checks = checksOf(model, policy);
      const posture = this.#posture.get(apiSessionId);
      const result = evaluate(checks, posture, this.#now());
      if (result.isPassing) return allowedUntil(checks.map((check) => expiresAt(check, posture)));
      for (const id of result.failing) failing.add(id);
    }
    return isGranted ? refused("posture", [...failing].sort()) : refused("no policy");
  }

  serviceIdOf(name: string): string | undefined {
    return this.#source.model.serviceNamed(name)?.id;
  }

  identityName(id: string): string | undefined {
    return this.#source.model.identityName(id);
  }

  joined({ apiSessionId, totpAt }: AccessClaims): void {
    this.#posture.join(apiSessionId, this.#now());
    if (totpAt === undefined) return;
    const before = this.#posture.get(apiSessionId);
    // Only where nothing is known: a refreshed token says when the login was.
    if (before.session.mfaPassedAt !== undefined) return;
    this.#posture.set(apiSessionId, withTotp(before, Math.min(totpAt, this.#now())));
    this.#changed(new Set(), [apiSessionId]);
  }

  reported(claims: AccessClaims, responses: edgeClientPb.PostureResponses): void {
    const { apiSessionId } = claims;
    const taken = reportsOfWire(responses, this.#posture.get(apiSessionId), this.#now());
    if (taken === undefined) {
      this.#log.warn({ apiSessionId }, "a posture report is too large and was ignored");
      return;
    }
    if (!this.#posture.set(apiSessionId, taken.state)) return;
    this.#changed(new Set(), [apiSessionId]);
    for (const token of taken.totpTokens.slice(0, MAX_TOTP_TOKENS)) {
      this.#passTotp(token, claims).catch((error: unknown) => {
        this.#log.debug({ apiSessionId, reason: errorText(error) }, "a TOTP token was refused");
      });
    }
  }

  left(apiSessionId: string): void {
    this.#posture.leave(apiSessionId, this.#now());
  }

  onChange(listener: (change: AccessChange) => void): () => void {
    return this.#listeners.add(listener);
  }

  view(identityId: string, apiSessionId: string): IdentityView {
    return viewOf(this.#source.model, identityId, this.#posture.get(apiSessionId), this.#now());
  }

  /** Of how many API sessions posture is known. */
  inspectPosture(): object {
    return this.#posture.sizes;
  }

  close(): void {
    this.#stopFollowing();
    clearInterval(this.#sweeps);
    clearTimeout(this.#telling);
    this.#listeners.clear();
  }

  async #admitted(token: string): Promise<AccessClaims> {
    const claims = await this.#verifier.access(token);
    if (this.isRevoked(claims)) throw new TokenRefusedError("REVOKED", "the token was revoked");
    if (!this.isEnabled(claims.identityId)) {
      throw new TokenRefusedError("IDENTITY", "the identity of the token is unknown or disabled");
    }
    return claims;
  }

  /** May what is missing be on its way? An identity that enrolls connects at once. */
  #mayCome(error: unknown): boolean {
    return error instanceof TokenRefusedError && (error.code === "UNKNOWN_KEY" || error.code === "IDENTITY");
  }

  async #passTotp(token: string, claims: AccessClaims): Promise<void> {
    const passedAt = await this.#verifier.totp(token, claims);
    const { apiSessionId } = claims;
    if (this.#posture.set(apiSessionId, withTotp(this.#posture.get(apiSessionId), passedAt))) {
      this.#changed(new Set(), [apiSessionId]);
    }
  }

  #changed(identities: ReadonlySet<string> | "all", sessions: Iterable<string>): void {
    this.#pending ??= { identities: new Set(), sessions: new Set() };
    const { identities: known } = this.#pending;
    if (identities === "all" || known === "all") this.#pending.identities = "all";
    else for (const id of identities) known.add(id);
    for (const id of sessions) this.#pending.sessions.add(id);
    const waitMs = Math.max(0, this.#toldAt + TELL_MS - performance.now());
    this.#telling ??= setTimeout(() => this.#tell(), waitMs).unref();
  }

  #tell(): void {
    const change = this.#pending;
    this.#pending = undefined;
    this.#telling = undefined;
    this.#toldAt = performance.now();
    if (change !== undefined) this.#listeners.emit({ ...change, index: this.#source.model.index });
  }
}

type Refusal = Extract<AccessVerdict, { isAllowed: false }>;

function allowedUntil(ends: readonly (number | undefined)[]): AccessVerdict {
  const until = Math.min(...ends.filter((end) => end !== undefined));
  return Number.isFinite(until) ? { isAllowed: true, until } : { isAllowed: true };
}

function refused(reason: Refusal["reason"], failingCheckIds: readonly string[] = []): Refusal {
  return { isAllowed: false, reason, failingCheckIds };
}
