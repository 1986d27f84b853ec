/** Errors as OAuth writes them (RFC 6749, sections 4.1.2.1 and 5.2; OpenID Connect Core, section 3.1.2.6). */
import { ApiError, JSON_TYPE } from "@sallyport/api";
import type { EndpointAnswer } from "../http/endpoints.ts";

const STATUS = {
  invalid_request: 400,
  invalid_client: 400,
  invalid_grant: 400,
  invalid_token: 401,
  invalid_scope: 400,
  invalid_target: 400,
  access_denied: 400,
  unsupported_grant_type: 400,
  unsupported_response_type: 400,
  request_not_supported: 400,
  request_uri_not_supported: 400,
  login_required: 400,
  interaction_required: 400,
  temporarily_unavailable: 503,
  server_error: 500,
} as const satisfies Record<string, number>;

export type OAuthErrorCode = keyof typeof STATUS;

/**
 * An error whose code and description the caller sees. The description says what to do, and repeats nothing secret.
 * @param more `detail` is for the log only
 */
export function oauthError(
  code: OAuthErrorCode,
  description: string,
  more?: {
    readonly status?: number;
    readonly headers?: Readonly<Record<string, string>>;
    readonly detail?: string;
  },
): ApiError {
  const headers = more?.headers === undefined ? undefined : { ...more.headers };
  return new ApiError(more?.status ?? STATUS[code], code, description, undefined, { headers, detail: more?.detail });
}

/** Any failure under a code of OAuth. */
export function oauthCodeOf(error: ApiError): OAuthErrorCode {
  if (Object.hasOwn(STATUS, error.code)) return error.code as OAuthErrorCode;
  if (error.status === 429 || error.status === 503) return "temporarily_unavailable";
  return error.status >= 500 ? "server_error" : "invalid_request";
}

/** A failure as an endpoint of OAuth answers it. */
export function oauthFailure(error: ApiError): EndpointAnswer {
  return jsonAnswer(error.status, { error: oauthCodeOf(error), error_description: failureText(error) });
}

/** A failure as a login endpoint answers it: the error of the APIs without its envelope. */
export function loginFailure({ status, code, message, cause }: ApiError): EndpointAnswer {
  return jsonAnswer(status, { code, message, cause });
}

/** The message with what the cause adds to it. */
export function failureText({ message, cause }: ApiError): string {
  const more = cause?.reason ?? cause?.message;
  return more === undefined ? message : `${message}: ${more}`;
}

export function jsonAnswer(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): EndpointAnswer {
  return { status, headers, body: { type: JSON_TYPE, text: JSON.stringify(body) } };
}
