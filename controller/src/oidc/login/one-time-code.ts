/** The one-time code of a login, and its enrollment within the login. */
import { ApiError } from "@sallyport/api";
import type { EndpointAnswer } from "../../http/endpoints.ts";
import { jsonAnswer } from "../oauth-error.ts";
import type { Call, Provider } from "../provider-parts.ts";
import { type LoginFields, readLogin } from "./login-request.ts";
import { begunEnrollment, codePage, identityOf, outcome, type ProvedLogin, provedLogin } from "./outcome.ts";

const WRONG = "The code is not right. Enter the one that your authenticator app shows now.";
const REPLACED = "What you have set up is no longer valid. Go on with what this page shows.";

/** POST: passes a code, also a recovery code. */
export function passCode(provider: Provider, call: Call): Promise<EndpointAnswer> {
  return withCode(provider, call, (identityId, code, { apiSessionId }) =>
    provider.model.mfa.pass(identityId, code, { apiSessionId, allowRecovery: true }),
  );
}

/** POST: passes the first code of an enrollment, which counts for this login. */
export function verifyEnrollment(provider: Provider, call: Call): Promise<EndpointAnswer> {
  return withCode(provider, call, (identityId, code, { apiSessionId }, { enrollmentId }) =>
    // A page always says which one it showed.
    provider.model.mfa.verify(identityId, apiSessionId, code, enrollmentId ?? (call.form === "page" ? "" : undefined)),
  );
}

/** What a page says, by the code of the error. */
const PROBLEMS: ReadonlyMap<string, string> = new Map([
  ["MFA_INVALID_TOKEN", WRONG],
  ["MFA_ENROLLMENT_NOT_STARTED", REPLACED],
]);

async function withCode(
  provider: Provider,
  call: Call,
  pass: (identityId: string, code: string, login: ProvedLogin, fields: LoginFields) => Promise<void>,
): Promise<EndpointAnswer> {
  const { model, authentication, now } = provider;
  const fields = readLogin(call.request);
  const login = await provedLogin(provider, fields);
  const { apiSessionId } = login;
  const identity = await identityOf(provider, apiSessionId);
  try {
    await pass(identity.id, fields.code ?? "", login, fields);
  } catch (error) {
    if (!(error instanceof ApiError) || call.form !== "page") throw error;
    const text = PROBLEMS.get(error.code);
    if (text === undefined) throw error;
    const shown = error.code === "MFA_INVALID_TOKEN" ? fields.enrollmentId : undefined;
    return codePage(provider, login, { problem: { status: error.status, text }, enrollmentId: shown });
  }
  const row = await model.apiSessions.completeMfa(apiSessionId);
  await model.posture.passedMfa(identity.id, apiSessionId, row.mfa_passed_at ?? now());
  return outcome(provider, call, login, await authentication.finish(apiSessionId, call.request.bearerTokens));
}

/** POST: begins an enrollment. */
export async function startEnrollment(provider: Provider, { request }: Call): Promise<EndpointAnswer> {
  const { apiSessionId } = await provedLogin(provider, readLogin(request));
  const { id, pending } = await begunEnrollment(provider, await identityOf(provider, apiSessionId));
  return jsonAnswer(201, { id, isVerified: false, ...pending });
}

/** DELETE: ends an enrollment; one that is complete needs a code. Clients call it before they begin one, so none is no error. */
export async function endEnrollment(provider: Provider, { request }: Call): Promise<EndpointAnswer> {
  const { mfa, posture } = provider.model;
  const fields = readLogin(request);
  const { apiSessionId } = await provedLogin(provider, fields);
  const identity = await identityOf(provider, apiSessionId);
  if ((await mfa.status(identity)) !== undefined) {
    await mfa.disable(identity.id, apiSessionId, fields.code ?? "");
    await posture.forgetMfa(identity.id);
  }
  return jsonAnswer(200, {});
}
