import {
  accepts,
  apiError,
  asksFor,
  type enrollmentOperations,
  fieldError,
  JSON_TYPE,
  unservedEnrollment,
} from "@sallyport/api";
import type { Enrolled } from "../../auth/certificate-enrolling.ts";
import type { Enrolling } from "../../auth/enrolling.ts";
import type { ApiHandlers, RequestInfo } from "../../http/context.ts";
import type { ApiDependencies } from "../dependencies.ts";
import { renderControllers } from "../render/controllers.ts";
import { unservedHandlers } from "../system/system-handlers.ts";

export function enrollmentHandlers(deps: ApiDependencies): ApiHandlers<typeof enrollmentOperations> {
  const { enrolling } = deps;
  const controllers = () => renderControllers(deps);
  /** What a method of identities answers: routers learn controllers over their channel. */
  const withControllers = (method: string) =>
    method === "ott" || method === "ottca" || method === "updb" ? { controllers: controllers() } : {};
  const by = async (method: string, token: string | undefined, body: EnrollBody, request: RequestInfo) => ({
    data: {
      ...(await enroll(enrolling, method, requiredToken(token ?? body.json?.token), body, request)),
      ...withControllers(method),
    },
  });
  return {
    ...unservedHandlers(unservedEnrollment),
    enroll: async ({ query, body, request }) => {
      const method = query.method ?? "ott";
      const token = query.token ?? body.json?.token ?? "";
      // Text is a certificate request and nothing but: whatever else its sender got wrong, the token is what does not fit.
      if (method !== "ca" && token !== "" && body.text === undefined) requiredToken(token);
      const data = await enroll(enrolling, method, token, body, request);
      const { accept } = request.headers;
      return {
        data: { ...data, ...withControllers(method) },
        text: accepts(accept, JSON_TYPE) ? undefined : pemOf(data, "application/x-pem-file"),
      };
    },
    enrollOtt: async ({ query, body, request }) => {
      const { data } = await by("ott", query.token, body, request);
      const type = "application/x-x509-user-cert";
      return { data, text: asksFor(request.headers.accept, type) ? pemOf(data, type) : undefined };
    },
    enrollOttCa: ({ query, body, request }) => by("ottca", query.token, body, request),
    enrollCa: async ({ body, request }) => ({ data: await enroll(enrolling, "ca", "", body, request) }),
    ernollUpdb: ({ query, body, request }) => by("updb", query.token, body, request),
    enrollToken: async ({ body, request }) => {
      const enrolled = await enrolling.byToken.enroll({
        bearerTokens: request.bearerTokens,
        signerId: request.headers["ziti-token-issuer-id"],
        csr: body.clientCsr,
      });
      return { data: { ...enrolled, controllers: controllers() } };
    },
    enrollErOtt: ({ query, body, request }) => by("erott", query.token, body, request),
    extendRouterEnrollment: async ({ body, request }) => ({
      data: await enrolling.extendRouter(directCertificates(request), body),
    }),
  };
}

/** The caller's own certificates. Without this check, a client could act as the router whose proxy it uses: it can remove every other mark of the proxy. */
function directCertificates({ peerCertificates, headers }: RequestInfo): RequestInfo["peerCertificates"] {
  return headers["x-forwarded-for"] === undefined ? peerCertificates : [];
}

type EnrollField = "token" | "name" | "clientCsr" | "certCsr" | "serverCertCsr" | "serverCsr" | "username" | "password";

interface EnrollBody {
  readonly text?: string;
  readonly json?: { readonly [F in EnrollField]?: string | undefined };
}

/** The one request behind all forms: token in the query or the body, the CSR as text or in a field of the JSON. */
function enroll(
  enrolling: Enrolling,
  method: string,
  token: string,
  { text, json }: EnrollBody,
  request: RequestInfo,
): Promise<Enrolled> {
  return enrolling.enroll({
    method,
    token,
    csr: text ?? json?.clientCsr ?? json?.certCsr,
    certCsr: json?.certCsr ?? json?.clientCsr,
    serverCertCsr: json?.serverCertCsr ?? json?.serverCsr,
    username: json?.username,
    password: json?.password,
    name: json?.name,
    peerCertificates: request.peerCertificates,
  });
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** @throws ApiError 400 on field `token` unless there is one of the form of a UUID */
function requiredToken(token: string | undefined): string {
  if (token === undefined || token === "") throw fieldError("token", "token in query is required");
  if (!UUID.test(token)) throw fieldError("token", "token in query must be of type uuid");
  return token;
}

/** The certificate alone, for clients that did not ask for JSON. @throws ApiError 415 when there is none */
function pemOf(data: Enrolled, contentType: string): { body: string; contentType: string } {
  if (data.cert === undefined || data.serverCert !== undefined) throw apiError("UNSUPPORTED_MEDIA");
  return { body: data.cert, contentType };
}
