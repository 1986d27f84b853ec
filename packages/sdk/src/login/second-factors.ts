import { ApiError, type AuthQuery } from "@sallyport/api/client";
import { AuthenticationError } from "../errors.ts";

/** What a one-time code is asked for with. */
export interface OneTimeCodeQuery {
  /** Characters; undefined when the network does not say. */
  readonly minLength: number | undefined;
  readonly maxLength: number | undefined;
  /** The code before was refused. */
  readonly isRepeated: boolean;
}

/** Where a token of another provider is had. */
export interface ExternalTokenQuery {
  /** Id of the signer that the network trusts. */
  readonly signerId: string | undefined;
  readonly authUrl: string | undefined;
  readonly clientId: string | undefined;
  readonly scopes: readonly string[];
}

/** How an application answers what a network asks besides the first proof. */
export interface SecondFactorCallbacks {
  readonly oneTimeCode?: ((query: OneTimeCodeQuery) => Promise<string>) | undefined;
  readonly externalToken?: ((query: ExternalTokenQuery) => Promise<string>) | undefined;
}

type FactorProof = { readonly code: string } | { readonly token: string };

/** A network asks for a factor at most so often in one login. */
const MAX_FACTORS = 8;
const MAX_WRONG_CODES = 3;

/**
 * Answers the second factors of one login after the other.
 *
 * @internal
 */
export class SecondFactors {
  readonly #callbacks: SecondFactorCallbacks;

  constructor(callbacks: SecondFactorCallbacks) {
    this.#callbacks = callbacks;
  }

  /**
   * Proves all that is asked for.
   *
   * @param asked the first queries
   * @param prove gives a proof, and answers what is asked for after it
   * @throws AuthenticationError, or what `prove` and the callbacks throw
   */
  async proveAll(
    controller: string,
    asked: readonly AuthQuery[],
    prove: (proof: FactorProof) => Promise<readonly AuthQuery[]>,
  ): Promise<void> {
    let queries = asked;
    for (let given = 0; queries.length > 0; given++) {
      const [query] = queries;
      if (query === undefined || given === MAX_FACTORS) {
        throw new AuthenticationError(
          "SECOND_FACTOR_REFUSED",
          `${controller} asks for the same factors again and again`,
        );
      }
      queries =
        query.typeId === "EXT-JWT"
          ? await prove(await this.#token(controller, query))
          : await this.#code(controller, query, prove);
    }
  }

  async #token(controller: string, { id, httpUrl, clientId, scopes }: AuthQuery): Promise<FactorProof> {
    const ask = this.#callbacks.externalToken;
    if (ask === undefined) throw missing(controller, "a token of another provider", "externalToken");
    return { token: await ask({ signerId: id, authUrl: httpUrl, clientId, scopes: scopes ?? [] }) };
  }

  async #code<T>(
    controller: string,
    { minLength, maxLength }: AuthQuery,
    prove: (proof: FactorProof) => Promise<T>,
  ): Promise<T> {
    const ask = this.#callbacks.oneTimeCode;
    if (ask === undefined) throw missing(controller, "a one-time code", "oneTimeCode");
    for (let wrong = 0; ; wrong++) {
      const code = await ask({ minLength, maxLength, isRepeated: wrong > 0 });
      try {
        return await prove({ code });
      } catch (error) {
        if (!(error instanceof ApiError && error.status === 400)) throw error;
        if (wrong + 1 < MAX_WRONG_CODES) continue;
        const text = `${controller} refused ${MAX_WRONG_CODES} one-time codes: ${error.message}; are they for this identity, and is the clock of the device that shows them right?`;
        throw new AuthenticationError("SECOND_FACTOR_REFUSED", text, { cause: error });
      }
    }
  }
}

function missing(controller: string, what: string, callback: keyof SecondFactorCallbacks): AuthenticationError {
  return new AuthenticationError(
    "SECOND_FACTOR_REQUIRED",
    `${controller} asks for ${what}: give the context the callback ${callback}, or the identity an authentication policy without it`,
  );
}
