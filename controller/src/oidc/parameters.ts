/** Parameters of a request as RFC 6749, section 3.1, reads them: an empty one was not sent, an unknown one is ignored, a known one comes once. */
import type { Pairs } from "../http/endpoints.ts";
import { oauthError } from "./oauth-error.ts";

export class Parameters {
  readonly #pairs: Pairs;

  constructor(...sources: readonly (Pairs | undefined)[]) {
    this.#pairs = sources.flatMap((pairs) => pairs ?? []).filter(([, value]) => value !== "");
  }

  /** @throws ApiError `invalid_request` when it came more than once */
  get(name: string): string | undefined {
    const values = this.all(name);
    if (values.length > 1) throw oauthError("invalid_request", `send ${name} once`);
    return values[0];
  }

  /** @throws ApiError `invalid_request` when it is missing, or came more than once */
  require(name: string): string {
    const value = this.get(name);
    if (value === undefined) throw oauthError("invalid_request", `${name} missing`);
    return value;
  }

  /** @throws ApiError `invalid_request` when it is longer than `max` characters, or came more than once */
  short(name: string, max: number): string | undefined {
    const value = this.get(name);
    if (value !== undefined && value.length > max) {
      throw oauthError("invalid_request", `${name} is longer than ${max} characters`);
    }
    return value;
  }

  /** Of a parameter that may be repeated. */
  all(name: string): readonly string[] {
    return this.#pairs.filter(([key]) => key === name).map(([, value]) => value);
  }
}

/** The scopes that mean something here; others are dropped. */
export const SCOPES = ["openid", "offline_access"] as const;

export type Scope = (typeof SCOPES)[number];

export function knownScopes(text: string): readonly Scope[] {
  const asked = text.split(" ");
  return SCOPES.filter((scope) => asked.includes(scope));
}
