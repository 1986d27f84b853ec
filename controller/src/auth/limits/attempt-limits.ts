import { BoundedMap } from "@sallyport/async";
import { countedAddress } from "@sallyport/wire";
import type { ChangeLog } from "../../store/changes/change-log.ts";
import { type Rate, RateLimit, tooManyRequests } from "./rate-limit.ts";

/** How many times the limit of one address holds for all addresses together, and for a router that passes requests on. */
export const ALL_ADDRESSES = 10;

/** Where an attempt comes from. */
export interface Origin {
  /** The address as it is counted, or that address behind a router. */
  readonly key: string;
  /** The router that passes the attempt on. */
  readonly router?: string;
}

/** A client at `ip` that connects itself. */
export function originAt(ip: string): Origin {
  return { key: countedAddress(ip) };
}

/** A client for which a router passes the attempt on. The router can claim any address. */
export function originBehind(routerFingerprint: string, ip: string): Origin {
  const router = `router ${routerFingerprint}`;
  return { key: `${countedAddress(ip)} behind ${router}`, router };
}

/** A client with a certificate of the network, which no other client at its address has. */
function originWith(fingerprint: string): Origin {
  return { key: `certificate ${fingerprint}` };
}

/** How often clients may try authentication and enrollment. */
export interface AttemptRates {
  readonly enabled: boolean;
  /** Authentications and enrollments from one address, successful or not. */
  readonly address: Rate;
  /** Wrong passwords for one user name from one address; ten times as many from all addresses together. */
  readonly failures: Rate;
}

/**
 * Limits on authentication and enrollment (docs/protocol/authentication.md, "Limits"). Every attempt counts for its origin, successful or not. Counted in this
 * process alone: an unauthenticated client must cause no write before anything is checked. Each of several controllers admits its share of the rate.
 */
export class AttemptLimits {
  readonly #enabled: boolean;
  /** By address, and by certificate. */
  readonly #attempts: RateLimit;
  readonly #ofRouters: RateLimit;

  /** @param liveReplicas how many controllers share the rate */
  constructor({ enabled, address }: Pick<AttemptRates, "enabled" | "address">, liveReplicas?: () => number) {
    this.#enabled = enabled;
    this.#attempts = new RateLimit(address, { sharedBy: liveReplicas });
    const { burst, perMinute } = address;
    const ofRouters = { burst: burst * ALL_ADDRESSES, perMinute: perMinute * ALL_ADDRESSES };
    this.#ofRouters = new RateLimit(ofRouters, { sharedBy: liveReplicas });
  }

  /**
   * A refused attempt takes nothing of the router's share: one client cannot use it up.
   * @throws ApiError 429 when too many attempts come from the address, or from the router
   */
  admit(origin: Origin): void {
    this.requireRoom(origin);
    if (!this.#enabled) return;
    this.#attempts.take(origin.key);
    if (origin.router !== undefined) this.#ofRouters.take(origin.router);
  }

  /**
   * Counts nothing. The router is checked before the addresses, which it can make up: those of a refused one take no memory.
   * @throws ApiError 429 when another attempt would be one too many
   */
  requireRoom({ key, router }: Origin): void {
    if (!this.#enabled) return;
    if (router !== undefined) refuseAfter(this.#ofRouters.wait(router), router);
    refuseAfter(this.#attempts.wait(key), key);
  }

  /** An attempt with a certificate of the network counts for the certificate alone. @throws ApiError 429 when there are too many */
  admitCertificate(fingerprint: string): void {
    this.admit(originWith(fingerprint));
  }

  /**
   * Where an attempt counts: for its address, and once other clients have used that up for the certificate of the network that the caller has.
   * @param certificate the fingerprint; it is asked for only then
   */
  originWithRoom(origin: Origin, certificate: () => string | undefined): Origin {
    if (!this.#enabled || this.#attempts.wait(origin.key) === 0) return origin;
    const own = certificate();
    return own === undefined ? origin : originWith(own);
  }
}

function refuseAfter(wait: number, key: string): void {
  if (wait > 0) throw tooManyRequests(wait, `too many attempts from ${key}`);
}

const MAX_CERTIFICATES = 10_000;
const LIFE_MS = 5_000;

interface KeptAnswer {
  readonly isRouter: Promise<boolean>;
  readonly until: number;
}

/**
 * Which certificates are those of routers that may pass requests on. Each answer, also "no", is kept for a few seconds, so that repeated attempts make the
 * store no work; none longer than until a router changes, at this controller or another one.
 */
export class ProxyingRouters {
  readonly #changes: Pick<ChangeLog, "subscribe">;
  readonly #ask: (fingerprint: string) => Promise<boolean>;
  readonly #now: () => number;
  readonly #answers = new BoundedMap<string, KeptAnswer>(MAX_CERTIFICATES);
  #isFollowing = false;

  /** @param now milliseconds of a clock that does not go back */
  constructor(
    changes: Pick<ChangeLog, "subscribe">,
    ask: (fingerprint: string) => Promise<boolean>,
    now: () => number = () => performance.now(),
  ) {
    this.#changes = changes;
    this.#ask = ask;
    this.#now = now;
  }

  async has(fingerprint: string): Promise<boolean> {
    this.#follow();
    const known = this.#answers.get(fingerprint);
    if (known !== undefined && this.#now() < known.until) return known.isRouter;
    const answer = { isRouter: this.#ask(fingerprint), until: this.#now() + LIFE_MS };
    this.#answers.set(fingerprint, answer);
    try {
      return await answer.isRouter;
    } catch (error) {
      if (this.#answers.get(fingerprint) === answer) this.#answers.delete(fingerprint);
      throw error;
    }
  }

  #follow(): void {
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    this.#changes.subscribe({
      name: "routers that pass requests on",
      isPrompt: true,
      onChanges: (rows) => {
        if (rows.some(({ kind }) => kind === "router")) this.#answers.clear();
      },
      onReset: () => this.#answers.clear(),
    });
  }
}
