/** The first factor of a login: a password, the certificate of the connection, or a token of an external identity provider. */
import { randomBytes } from "node:crypto";
import { ApiError } from "@sallyport/api";
import type { LoginProof } from "../../auth/authentication.ts";
import { isComplete, type OpenFactors } from "../../auth/factors.ts";
import type { EndpointAnswer } from "../../http/endpoints.ts";
import type { Db } from "../../model/context.ts";
import type { NewApiSession } from "../../model/session/api-sessions.ts";
import type { LoginRow } from "../../model/session/oidc-logins.ts";
import { knownClient } from "../clients.ts";
import { TEXT_TYPE } from "../negotiation.ts";
import { Parameters } from "../parameters.ts";
import type { Call, Provider } from "../provider-parts.ts";
import { checkedCsr } from "../token/session-certificate.ts";
import { type LoginFields, readLogin } from "./login-request.ts";
import { authQueries, outcome, tokenChallenge, unknownLogin, viewOf } from "./outcome.ts";

export type FirstFactor = "password" | "cert" | "ext-jwt";

/** From the first factor on a login lasts so long: users need time to enroll one-time codes. */
const PROVED_LIFE_MS = 1_800_000;
const WRONG = { status: 401, text: "User name, password or certificate are not right." };

/** GET: the page for a password, a line of text for the others. */
export async function loginPage(provider: Provider, method: FirstFactor, { request }: Call): Promise<EndpointAnswer> {
  const row = await loginInQuery(provider, request.query);
  const header = { "auth-request-id": row.id };
  if (method !== "password") {
    return { status: 200, headers: header, body: { type: TEXT_TYPE, text: "please POST to this URL" } };
  }
  const page = provider.pages.password(await viewOf(provider, row, newPageSecret()));
  return { ...page, headers: { ...page.headers, ...header } };
}

/** GET of the open factors. */
export async function openQueries(provider: Provider, call: Call): Promise<EndpointAnswer> {
  return authQueries(provider, call, await loginInQuery(provider, call.request.query));
}

async function loginInQuery({ model }: Provider, query: Call["request"]["query"]): Promise<LoginRow> {
  const asked = new Parameters(query);
  const id = asked.get("authRequestID") ?? asked.get("id") ?? "";
  const row = id === "" ? undefined : await model.oidcLogins.find(id);
  if (row === undefined) throw unknownLogin(id);
  return row;
}

/** POST: proves the factor. Of a login whose first factor is proved it looks at the tokens again: that is how clients send a second one. */
export async function logIn(provider: Provider, method: FirstFactor, call: Call): Promise<EndpointAnswer> {
  const fields = readLogin(call.request);
  const row = await provider.model.oidcLogins.find(fields.id, fields.pageSecret);
  if (row === undefined) throw unknownLogin(fields.id);
  const { apiSessionId } = row;
  if (apiSessionId !== null) {
    const open = await provider.authentication.finish(apiSessionId, call.request.bearerTokens);
    return outcome(provider, call, { row, apiSessionId, pageSecret: fields.pageSecret }, open);
  }
  // Steps that follow on a page need its secret: who knows the id of the login alone, such as its sender, gets no further.
  const pageSecret = fields.pageSecret ?? (call.form === "page" ? newPageSecret() : undefined);
  try {
    const made = await prove(provider, method, call, { fields, row, pageSecret });
    return await outcome(
      provider,
      call,
      { row, pageSecret, secret: made.secret, apiSessionId: made.session.id },
      made.open,
    );
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "INVALID_AUTH") throw error;
    if (call.form === "page" && method !== "ext-jwt") {
      return provider.pages.password(await viewOf(provider, row, pageSecret, WRONG));
    }
    if (method !== "ext-jwt") throw error;
    const challenge = await tokenChallenge(provider, "primary", call.request.bearerTokens);
    const more = { headers: { "www-authenticate": challenge }, detail: error.detail };
    throw new ApiError(401, "UNAUTHORIZED", error.message, undefined, more);
  }
}

interface Attempt {
  readonly fields: LoginFields;
  readonly row: LoginRow;
  readonly pageSecret: string | undefined;
}

async function prove(
  { authentication, model, now }: Provider,
  method: FirstFactor,
  { request }: Call,
  { fields, row, pageSecret }: Attempt,
): Promise<{
  readonly session: { readonly id: string };
  readonly open: OpenFactors;
  readonly secret: string | undefined;
}> {
  const { csrPem, username, password, configTypes = row.configTypes, sdkInfo, envInfo } = fields;
  const { peerCertificates, proxied, bearerTokens, remoteIp } = request;
  const expiresAt = new Date(now().getTime() + PROVED_LIFE_MS);
  let secret: string | undefined;
  const onMade = async (trx: Db, session: NewApiSession, { certFingerprints }: LoginProof, open: OpenFactors) => {
    // Not before the proof: its limits hold for the work of this check, too.
    if (csrPem !== undefined) await checkedCsr(csrPem);
    const [loginFingerprint = null] = certFingerprints;
    await model.oidcSessions.insert(trx, session, {
      clientId: knownClient(row.clientId),
      scopes: row.scopes,
      amr: [method],
      loginFingerprint,
      isBound: loginFingerprint !== null,
      shown: { sdkInfo: sdkInfo ?? null, envInfo: envInfo ?? null, remoteAddress: row.remoteAddress },
    });
    secret = await model.oidcLogins.prove(trx, row.id, {
      apiSessionId: session.id,
      csrPem,
      pageSecret,
      expiresAt,
      isFinished: isComplete(open),
    });
  };
  const made = await authentication.login({
    ...{ method, username, password, peerCertificates, proxied, bearerTokens, remoteIp, configTypes, sdkInfo, envInfo },
    as: { kind: "oidc", expiresAt, onMade },
  });
  return { ...made, secret };
}

function newPageSecret(): string {
  return randomBytes(32).toString("base64url");
}
