/** The body of a login request: JSON or a form, with the same fields under different names. */
import { apiError, envInfo, fieldError, MAX_CONFIG_TYPES, sdkInfo, unhandledCause } from "@sallyport/api";
import { z } from "zod";
import type { EndpointRequest } from "../../http/endpoints.ts";
import { ENROLLMENT_FIELD, PAGE_SECRET_FIELD } from "../pages/pages.ts";
import { Parameters } from "../parameters.ts";

const MAX_CREDENTIAL_LENGTH = 4_096;
const MAX_CSR_LENGTH = 16_384;

const credential = z.string().max(MAX_CREDENTIAL_LENGTH).optional();
const schema = z.object({
  id: credential,
  username: credential,
  password: credential,
  code: credential,
  csrPem: z.string().max(MAX_CSR_LENGTH).optional(),
  configTypes: z.array(z.string().max(255)).max(MAX_CONFIG_TYPES).optional(),
  sdkInfo: sdkInfo.optional(),
  envInfo: envInfo.optional(),
  [PAGE_SECRET_FIELD]: credential,
  [ENROLLMENT_FIELD]: credential,
});

export type LoginFields = Omit<z.output<typeof schema>, "id"> & { readonly id: string };

/** What is nested in JSON, by the names that forms have. */
const FORM_INFO = {
  sdkInfo: {
    appId: "sdkAppID",
    appVersion: "sdkAppVersion",
    branch: "sdkBranch",
    revision: "sdkRevision",
    type: "sdkType",
    version: "sdkVersion",
  },
  envInfo: {
    arch: "envArch",
    os: "envOs",
    osRelease: "envOsRelease",
    osVersion: "envOsVersion",
    domain: "envDomain",
    hostname: "envHostname",
  },
} as const;

/**
 * The id of the login is a field of the body, or in the query as `authRequestID` or `id`.
 * @throws ApiError 400
 */
export function readLogin({ query, form, json }: EndpointRequest): LoginFields {
  const given = form === undefined ? withoutNulls(json ?? {}) : fieldsOf(new Parameters(form));
  const read = schema.safeParse(given);
  if (!read.success) {
    const [issue] = read.error.issues;
    const field = issue?.path.join(".") ?? "";
    if (field === "") throw apiError("COULD_NOT_PARSE_BODY", unhandledCause("the body must be an object"));
    // Never with the value: it may be a password.
    throw fieldError(field, `${field} in body is invalid: ${issue?.message ?? ""}`);
  }
  const asked = new Parameters(query);
  const id = read.data.id || asked.get("authRequestID") || asked.get("id");
  if (id === undefined)
    throw fieldError("id", "send the id of the login: in the body as id, or in the query as authRequestID");
  return { ...read.data, id };
}

function fieldsOf(form: Parameters): Record<string, unknown> {
  const info = (names: Readonly<Record<string, string>>) => {
    const found = Object.entries(names).flatMap(([key, name]) => {
      const value = form.get(name);
      return value === undefined ? [] : [[key, value] as const];
    });
    return found.length === 0 ? undefined : Object.fromEntries(found);
  };
  const names = ["id", "username", "password", "code", "csrPem", PAGE_SECRET_FIELD, ENROLLMENT_FIELD];
  const texts = names.map((name) => [name, form.get(name)]);
  const configTypes = form.all("configTypes");
  return {
    ...Object.fromEntries(texts),
    configTypes: configTypes.length === 0 ? undefined : configTypes,
    sdkInfo: info(FORM_INFO.sdkInfo),
    envInfo: info(FORM_INFO.envInfo),
  };
}

/** Clients write null for what they do not know. */
function withoutNulls(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  const kept = Object.entries(value).filter(([, each]) => each !== null);
  return Object.fromEntries(kept.map(([name, each]) => [name, withoutNulls(each)]));
}
