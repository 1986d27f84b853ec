/** How a step of a login is answered: with the factors that are open, or with the way to the code. */
import { type ApiError, apiError, unauthorized } from "@sallyport/api";
import { type AuthQuery, isComplete, type OpenFactors } from "../../auth/factors.ts";
import { hintOf, MAX_TOKENS } from "../../auth/jwt/token-check.ts";
import type { EndpointAnswer } from "../../http/endpoints.ts";
import type { MfaStatus } from "../../model/identity/mfa.ts";
import type { LoginRow } from "../../model/session/oidc-logins.ts";
import { redirect } from "../authorize.ts";
import { PATHS } from "../discovery.ts";
import { jsonAnswer } from "../oauth-error.ts";
import type { PageView } from "../pages/pages.ts";
import type { Call, Provider } from "../provider-parts.ts";
import { redirectOrigin } from "../redirects.ts";

/** A login whose first factor is proved. */
export interface ProvedLogin {
  readonly row: LoginRow;
  readonly apiSessionId: string;
  readonly pageSecret: string | undefined;
  /** For the callback, when the login is finished with its first factor. */
  readonly secret?: string | undefined;
}

/** What was wrong with the last try, for the page. */
export interface Problem {
  readonly status: number;
  readonly text: string;
}

/** What a client does next after a step that went well. */
export async function outcome(
  provider: Provider,
  call: Call,
  login: ProvedLogin,
  open: OpenFactors,
): Promise<EndpointAnswer> {
  if (isComplete(open)) {
    const { oidcLogins } = provider.model;
    const secret = login.secret ?? (await oidcLogins.finish(login.row.id));
    oidcLogins.expectCallback(secret, login.row);
    provider.openLogins.remove(login.row.id);
    return redirect(`${call.issuer}${PATHS.callback.slice("/oidc".length)}?id=${secret}`);
  }
  if (call.form === "page") return nextPage(provider, login, open);
  const headers: Record<string, string> = {};
  if (open.totp) headers["totp-required"] = "true";
  if (open.token) {
    headers["www-authenticate"] = await tokenChallenge(provider, "secondary", call.request.bearerTokens);
  }
  return jsonAnswer(200, { authQueries: open.authQueries.map(queryOfLogin) }, headers);
}

/** The open factors alone; `null` when none is. */
export async function authQueries(provider: Provider, { request }: Call, login: LoginRow): Promise<EndpointAnswer> {
  const { apiSessionId } = login;
  if (apiSessionId === null) return jsonAnswer(200, { authQueries: null });
  const { authQueries } = await provider.authentication.finish(apiSessionId, request.bearerTokens);
  return jsonAnswer(200, { authQueries: authQueries.length === 0 ? null : authQueries.map(queryOfLogin) });
}

/** The code of a login has other bounds and another place than that of a session. */
function queryOfLogin(query: AuthQuery): object {
  if (query.typeId === "EXT-JWT") return query;
  const { isTotpEnrolled } = query;
  return {
    ...{ typeId: "TOTP", provider: "ziti", format: "numeric", httpMethod: "POST", httpUrl: `.${PATHS.totp}` },
    ...{ minLength: 6, maxLength: 8 },
    ...(isTotpEnrolled === true && { isTotpEnrolled }),
    scopes: null,
  };
}

async function nextPage(provider: Provider, login: ProvedLogin, open: OpenFactors): Promise<EndpointAnswer> {
  if (!open.totp) {
    const text =
      "This login also needs a token of an identity provider, which a page cannot send. Log in with your program.";
    return provider.pages.failure(401, text);
  }
  return codePage(provider, login);
}

/**
 * The page for a code, or for the enrollment of a first one.
 * @param last what was wrong with the last try, and the enrollment that its page showed
 */
export async function codePage(
  provider: Provider,
  login: ProvedLogin,
  { problem, enrollmentId }: { readonly problem?: Problem; readonly enrollmentId?: string | undefined } = {},
): Promise<EndpointAnswer> {
  const { mfa } = provider.model;
  const view = await viewOf(provider, login.row, login.pageSecret, problem);
  const identity = await identityOf(provider, login.apiSessionId);
  const status = await mfa.status(identity);
  if (status?.isVerified === true) return provider.pages.code(view);
  if (status?.pending !== undefined && status.id === enrollmentId) {
    return provider.pages.enrollment({ ...view, enrollmentId, ...status.pending });
  }
  // Who began it may know its secret: another one who has the password.
  if (status !== undefined) await mfa.disable(identity.id, login.apiSessionId, "");
  const { id, pending } = await begunEnrollment(provider, identity);
  return provider.pages.enrollment({ ...view, enrollmentId: id, ...pending });
}

/**
 * Begins an enrollment, and answers it alone: what another one has begun meanwhile is not shown.
 * @throws ApiError 409 `MFA_EXISTS`
 */
export async function begunEnrollment(
  { model }: Pick<Provider, "model">,
  identity: { readonly id: string; readonly name: string },
): Promise<{ readonly id: string; readonly pending: NonNullable<MfaStatus["pending"]> }> {
  const id = await model.mfa.start(identity.id);
  const status = await model.mfa.status(identity);
  if (status?.pending === undefined || status.id !== id) throw apiError("MFA_EXISTS");
  return { id, pending: status.pending };
}

export async function viewOf(
  provider: Provider,
  row: LoginRow,
  pageSecret: string | undefined,
  problem?: Problem,
): Promise<PageView> {
  const signers = await provider.authentication.enabledSigners();
  return {
    requestId: row.id,
    pageSecret,
    client: row.clientId,
    redirectOrigin: redirectOrigin(row.redirectUri),
    signers: signers.flatMap(({ name, externalAuthUrl }) => (externalAuthUrl ? [{ name }] : [])),
    ...(problem !== undefined && { problem: problem.text, status: problem.status }),
  };
}

/** @throws ApiError 401 when the session of the login has ended */
export async function identityOf(
  { model }: Pick<Provider, "model">,
  apiSessionId: string,
): Promise<{ readonly id: string; readonly name: string }> {
  const session = await model.oidcSessions.subjectOf(apiSessionId);
  if (session === undefined || session.isDisabled) throw unauthorized(`API session ${apiSessionId} has ended`);
  return session.identity;
}

/** The login with its first factor proved. @throws ApiError 401 */
export async function provedLogin(
  { model }: Provider,
  { id, pageSecret }: { readonly id: string; readonly pageSecret?: string | undefined },
): Promise<ProvedLogin> {
  const row = await model.oidcLogins.find(id, pageSecret);
  if (row === undefined || row.apiSessionId === null) throw unknownLogin(id);
  return { row, apiSessionId: row.apiSessionId, pageSecret };
}

export function unknownLogin(id: string): ApiError {
  return unauthorized(`login ${id.slice(0, 64)} is unknown, over or finished, or of a page whose secret is missing`);
}

const CHALLENGES = {
  missing: "no token was provided",
  invalid: "no token is valid",
  expired: "the token has expired: get a new one",
};

/** The challenge for a token of an external identity provider. */
export async function tokenChallenge(
  { authentication, now }: Pick<Provider, "authentication" | "now">,
  factor: "primary" | "secondary",
  bearerTokens: readonly string[],
): Promise<string> {
  const signers = await authentication.enabledSigners();
  const known = new Set(signers.map(({ issuer }) => issuer));
  const hasEnded = bearerTokens.slice(0, MAX_TOKENS).some((token) => {
    const hint = hintOf(token);
    return hint?.expiresAt !== undefined && known.has(hint.issuer) && hint.expiresAt <= now();
  });
  const error = bearerTokens.length === 0 ? "missing" : hasEnded ? "expired" : "invalid";
  const text = CHALLENGES[error];
  const quoted = (parts: readonly string[]) => `"${parts.join("|").replaceAll(/["\\\r\n]|[^\x20-\x7e]/g, "")}"`;
  const [ids, issuers] = [signers.map(({ id }) => id), signers.map(({ issuer }) => issuer)];
  const realm = `openziti-${factor}-ext-jwt`;
  return `Bearer realm="${realm}" error="${error}" error_description="${text}" id=${quoted(ids)} issuer=${quoted(issuers)}`;
}
