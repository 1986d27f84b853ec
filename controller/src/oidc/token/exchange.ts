/** Token exchange (RFC 8693): how clients in Go renew their tokens. They exchange one refresh token twice, for a new one and then for an id token. */
import type { EndpointAnswer } from "../../http/endpoints.ts";
import type { OidcSessionFacts } from "../../model/session/oidc-sessions.ts";
import { CLIENTS, type ClientId } from "../clients.ts";
import { jsonAnswer, oauthError } from "../oauth-error.ts";
import type { Parameters } from "../parameters.ts";
import type { Call, Provider } from "../provider-parts.ts";
import { reused, scopesFor, secondsUntil, sessionOfToken, subjectFor } from "./grant.ts";
import { rotate } from "./refresh.ts";

const TYPE = "urn:ietf:params:oauth:token-type:";
const KINDS = ["refresh_token", "access_token", "id_token"] as const;
type Kind = (typeof KINDS)[number];

/** So long a refresh token that was just replaced is good for an id token: it grants nothing. */
const PREVIOUS_MS = 60_000;

export async function exchangeToken(
  provider: Provider,
  call: Call,
  client: ClientId,
  form: Parameters,
): Promise<EndpointAnswer> {
  const token = form.require("subject_token");
  const given = kindOf("subject_token_type", form.require("subject_token_type"));
  if (given === "id_token") throw unknownType("subject_token_type");
  const wanted = kindOf("requested_token_type", form.get("requested_token_type") ?? TYPE + given);
  requireOwnTarget(form);
  if (form.get("actor_token") !== undefined) throw oauthError("invalid_request", "actor_token is not supported");
  if (wanted === "refresh_token") {
    if (given === "access_token") {
      throw oauthError("invalid_request", "an access token gives no refresh token: ask for an access_token");
    }
    const made = await rotate(provider, call, client, { form, token });
    return jsonAnswer(200, {
      access_token: made.accessToken,
      issued_token_type: TYPE + wanted,
      token_type: "Bearer",
      expires_in: made.expiresIn,
      scope: made.scope,
      refresh_token: made.refreshToken,
      session_cert: made.sessionCertPem,
    });
  }
  const subject = await subjectOf(provider, call, client, { given, wanted, token });
  const scopes = scopesFor(subject.scopes, form);
  return wanted === "id_token"
    ? idToken(provider, call, subject.session, scopes)
    : accessToken(provider, call, subject, scopes);
}

/** What a subject token stands for: no token that is made from it has more scopes, or lives longer than `until`. */
interface Subject {
  readonly session: OidcSessionFacts;
  readonly scopes: readonly string[];
  readonly until?: Date;
}

/** @throws ApiError `invalid_grant` */
async function subjectOf(
  provider: Provider,
  call: Call,
  client: ClientId,
  { given, wanted, token }: { readonly given: Kind; readonly wanted: Kind; readonly token: string },
): Promise<Subject> {
  const { own } = provider.tokens;
  const limit = provider.authentication.checkLimit(call.request);
  if (given === "access_token") {
    const subject = await sessionOfToken(provider, call, client, "access token", await own.access(token, limit));
    // A stolen one must not become others without end.
    return { ...subject, until: subject.expiresAt };
  }
  const subject = await sessionOfToken(provider, call, client, "refresh token", await own.refresh(token, limit));
  const { session, jti } = subject;
  if (jti === session.refreshJti) return subject;
  const since = provider.now().getTime() - PREVIOUS_MS;
  const wasJustReplaced = jti === session.previousJti && (session.rotatedAt?.getTime() ?? 0) > since;
  if (!wasJustReplaced) throw await reused(provider, call, session.session.id);
  if (wanted === "id_token") return subject;
  throw oauthError("invalid_grant", "the refresh token was replaced: send its successor");
}

async function accessToken(
  { model, tokens, now }: Provider,
  call: Call,
  { session, until }: Subject,
  scopes: readonly string[],
): Promise<EndpointAnswer> {
  const at = now();
  const made = tokens.issuer.access(subjectFor(session, call, at, { scopes }), until);
  const hasGoneOn = await model.oidcSessions.extend(session.session.id, made.expiresAt);
  if (!hasGoneOn) throw oauthError("invalid_grant", "the session has ended: log in again");
  const endsAt = new Date(Math.min(made.expiresAt.getTime(), session.expiresAt.getTime()));
  return jsonAnswer(200, {
    access_token: made.token,
    issued_token_type: `${TYPE}access_token`,
    token_type: "Bearer",
    expires_in: secondsUntil(endsAt, at),
    scope: scopes.join(" "),
  });
}

/** The id token lies in `access_token`, and is none (RFC 8693, section 2.2.1). */
function idToken(
  { tokens, now }: Provider,
  call: Call,
  session: OidcSessionFacts,
  scopes: readonly string[],
): EndpointAnswer {
  const at = now();
  const made = tokens.issuer.id(subjectFor(session, call, at, { scopes }), {});
  return jsonAnswer(200, {
    access_token: made.token,
    issued_token_type: `${TYPE}id_token`,
    token_type: "N_A",
    expires_in: secondsUntil(made.expiresAt, at),
    scope: scopes.join(" "),
  });
}

function kindOf(name: string, value: string): Kind {
  const kind = KINDS.find((each) => TYPE + each === value);
  if (kind === undefined) throw unknownType(name);
  return kind;
}

function unknownType(name: string): Error {
  return oauthError("invalid_request", `${name} must be ${KINDS.map((kind) => TYPE + kind).join(" or ")}`);
}

/** Tokens are for this network only. */
function requireOwnTarget(form: Parameters): void {
  const isForeign = form.all("audience").some((audience) => !(CLIENTS as readonly string[]).includes(audience));
  if (!isForeign && form.all("resource").length === 0) return;
  throw oauthError("invalid_target", `leave resource out, and audience, too, or send ${CLIENTS.join(" or ")}`);
}
