import type { Logger } from "@sallyport/wire";
import type { Authentication } from "../auth/authentication.ts";
import type { AttemptRates } from "../auth/limits/attempt-limits.ts";
import type { RateLimit } from "../auth/limits/rate-limit.ts";
import type { Tokens } from "../auth/tokens/tokens.ts";
import type { EndpointRequest } from "../http/endpoints.ts";
import type { OidcSettings } from "../model/context.ts";
import type { Model } from "../model/model.ts";
import type { AnswerForm } from "./negotiation.ts";
import type { OpenLogins } from "./open-logins.ts";
import type { Pages } from "./pages/pages.ts";
import type { RedirectRules } from "./redirects.ts";

/** What the provider is made of. It decides nothing about credentials and sessions: authentication and model do. */
export interface ProviderParts {
  readonly authentication: Pick<
    Authentication,
    | "login"
    | "finish"
    | "sessionOfBearer"
    | "holdsCertificateOf"
    | "enabledSigners"
    | "originOf"
    | "networkPrint"
    | "checkLimit"
    | "noteFailure"
  >;
  readonly model: Pick<Model, "oidcLogins" | "oidcSessions" | "revocations" | "mfa" | "posture" | "apiSessions">;
  readonly tokens: Tokens;
  readonly settings: OidcSettings;
  /** How often logins may begin, per address. */
  readonly rates: AttemptRates;
  /** Origins whose pages may use the APIs: they may also be redirected to. */
  readonly allowedOrigins: readonly string[];
  /** Host names of the served certificates, and those that are advertised. */
  readonly servedHosts: () => readonly string[];
  readonly pages: Pages;
  readonly now: () => Date;
  /** How many controllers share the rates. */
  readonly liveReplicas: () => number;
  readonly log: Logger;
}

/** The parts with what the provider keeps itself. */
export interface Provider extends ProviderParts {
  readonly openLogins: OpenLogins;
  /** How often the access tokens of one session may be revoked singly, by the session's id. */
  readonly singleRevocations: RateLimit;
  readonly redirects: RedirectRules;
  readonly postLogout: RedirectRules;
}

/** A request to the provider by one of its names. */
export interface Call {
  readonly request: EndpointRequest;
  /** The issuer under which the client sees the provider. */
  readonly issuer: string;
  readonly form: AnswerForm;
}
