import { Backoff, jittered, MAX_TIMER_MS } from "@sallyport/async";
import { ApiError } from "../../errors.ts";
import type { OidcTokens } from "./oidc-http.ts";

/** Clients that logged in at one moment do not come back at one moment. */
const PART_OF_LIFE = [1 / 2, 5 / 6] as const;
const MIN_DELAY_MS = 1_000;
const pauses = { firstMs: 1_000, maxMs: 60_000, jitter: [0.75, 1.25] } as const;

export interface TokenRefreshOptions {
  readonly tokens: OidcTokens;
  /** One exchange of the refresh token. */
  readonly refresh: (tokens: OidcTokens) => Promise<OidcTokens>;
  readonly onRefreshed: (tokens: OidcTokens) => void;
  /** The provider takes the refresh token no more: a new login is needed. Nothing is tried after it. */
  readonly onRefused: (error: unknown) => void;
  /** It could not be asked, and is asked again. */
  readonly onFailed: (error: unknown) => void;
}

/** Keeps the tokens of a session fresh: at a random time between one half and five sixths of their life. Keeps no process alive. */
export class TokenRefresh {
  readonly #o: TokenRefreshOptions;
  readonly #backoff = new Backoff(pauses);
  #tokens: OidcTokens;
  #timer: NodeJS.Timeout | undefined;
  #underWay: Promise<OidcTokens> | undefined;
  #isOver = false;

  constructor(o: TokenRefreshOptions) {
    this.#o = o;
    this.#tokens = o.tokens;
    this.#schedule();
  }

  get tokens(): OidcTokens {
    return this.#tokens;
  }

  /** Refreshes at once; one at a time, since a refresh token is good for one use. @throws what `refresh` throws */
  now(): Promise<OidcTokens> {
    this.#underWay ??= this.#refresh().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }

  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  async #refresh(): Promise<OidcTokens> {
    clearTimeout(this.#timer);
    try {
      const tokens = await this.#o.refresh(this.#tokens);
      this.#tokens = tokens;
      this.#backoff.reset();
      if (!this.#isOver) this.#o.onRefreshed(tokens);
      this.#schedule();
      return tokens;
    } catch (error) {
      if (!this.#isOver) this.#failed(error);
      throw error;
    }
  }

  #failed(error: unknown): void {
    if (isRefused(error)) {
      this.stop();
      this.#o.onRefused(error);
    } else {
      this.#o.onFailed(error);
      this.#wait(this.#backoff.next());
    }
  }

  #schedule(): void {
    const left = Math.max(this.#tokens.expiresAt - Date.now(), 0);
    this.#wait(Math.max(jittered(left, PART_OF_LIFE), MIN_DELAY_MS));
  }

  #wait(ms: number): void {
    if (this.#isOver) return;
    this.#timer = setTimeout(() => this.now().catch(() => undefined), Math.min(ms, MAX_TIMER_MS));
    this.#timer.unref();
  }
}

/** The provider answered, and no later attempt with the same token can help. */
function isRefused(error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;
}
