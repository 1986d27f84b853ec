import type { Db, ModelContext } from "../context.ts";

/** A login in progress. */
export interface LoginRow {
  readonly id: string;
  readonly clientId: string;
  readonly redirectUri: string;
  readonly state: string;
  readonly nonce: string;
  readonly codeChallenge: string;
  readonly scopes: string[];
  readonly configTypes: string[];
  readonly remoteAddress: string;
  readonly csrPem: string | null;
  readonly apiSessionId: string | null;
  readonly isOfPage: boolean;
  readonly expiresAt: Date;
}

/** Logins by OIDC from `/oidc/authorize` to the exchange of the code. */
export class OidcLogins {
  readonly ctx: ModelContext;

  constructor(ctx: ModelContext) {
    this.ctx = ctx;
  }

  async begin(_request: Omit<LoginRow, "id" | "apiSessionId" | "isOfPage" | "csrPem">): Promise<string> {
    throw new Error("logins by OIDC are not served yet");
  }

  /** @returns undefined for one that is unknown, over, finished, or of a page without its secret */
  async find(_id: string, _pageSecret?: string): Promise<LoginRow | undefined> {
    throw new Error("logins by OIDC are not served yet");
  }

  /** Ties the API session of the first factor to the login. Throws when another one was first. */
  async prove(
    _trx: Db,
    _id: string,
    _made: {
      readonly apiSessionId: string;
      readonly csrPem?: string;
      readonly pageSecret?: string;
      readonly expiresAt: Date;
    },
  ): Promise<void> {
    throw new Error("logins by OIDC are not served yet");
  }

  /** @returns the callback's id */
  async finish(_id: string): Promise<string> {
    throw new Error("logins by OIDC are not served yet");
  }

  async byCallback(_secret: string): Promise<{ code: string; redirectUri: string; state: string } | undefined> {
    throw new Error("logins by OIDC are not served yet");
  }

  async takeCode(
    _code: string,
  ): Promise<(LoginRow & { readonly apiSessionId: string }) | { readonly usedBy: string } | undefined> {
    throw new Error("logins by OIDC are not served yet");
  }
}
