import type { Connect } from "@sallyport/api/client";
import { EnrollmentError } from "../errors.ts";
import { type EnrollmentToken, issuerUrl } from "./enrollment-token.ts";
import { enrollmentRequest } from "./pinned-request.ts";

/** What is sent with an enrollment: a certificate request as PEM for identities, JSON for routers. */
export interface EnrollmentBody {
  readonly contentType: string;
  readonly body: string;
}

/**
 * Redeems an enrollment token: `POST /edge/client/v1/enroll?method=…&token=…`. Returns `data` of the answer.
 *
 * @throws EnrollmentError `ENROLLMENT_REFUSED` with the controller's code and message: a token that was used before or is
 * unknown says so; and as `enrollmentRequest`
 */
export async function postEnrollment(
  token: EnrollmentToken,
  caPem: string,
  content: EnrollmentBody,
  signal?: AbortSignal,
  connect?: Connect,
): Promise<unknown> {
  const url = issuerUrl(token.issuer, "/edge/client/v1/enroll");
  url.searchParams.set("method", token.method);
  url.searchParams.set("token", token.token);
  const response = await enrollmentRequest({
    method: "POST",
    url,
    trust: { caPem },
    headers: { "content-type": content.contentType, accept: "application/json" },
    body: content.body,
    connect,
    ...(signal === undefined ? {} : { signal }),
  });
  const answer = parse(response.body);
  if (response.status === 200) return answer?.data;
  throw new EnrollmentError("ENROLLMENT_REFUSED", refusal(token, response.status, answer));
}

interface Answer {
  readonly data?: unknown;
  readonly error?: {
    readonly code?: unknown;
    readonly message?: unknown;
    readonly cause?: { readonly message?: unknown };
  };
}

function parse(body: Buffer): Answer | undefined {
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}

function refusal(token: EnrollmentToken, status: number, answer: Answer | undefined): string {
  const code = String(answer?.error?.code ?? status);
  const said = [answer?.error?.message, answer?.error?.cause?.message].filter((text) => typeof text === "string");
  const what = `${token.issuer.host} refused the enrollment: ${code}${said.length > 0 ? ` (${said.join(": ")})` : ""}`;
  if (code === "INVALID_ENROLLMENT_TOKEN") {
    return `${what}. The token was used before, or was replaced by a newer one; ask the administrator for a new one`;
  }
  if (code === "ENROLLMENT_EXPIRED") return `${what}. Ask the administrator for a new token`;
  return what;
}
