/** OpenAPI 3.1 documents of the APIs, derived from the table. */
import { z } from "zod";
import { API_ERRORS } from "./errors.ts";
import { type BodySpec, type Operation, pagingOf, type ResponseSpec } from "./operation.ts";
import { API_VERSIONS, type ApiName, BASE_PATHS, operations } from "./operations/apis.ts";
import * as authenticator from "./schema/authenticator.ts";
import * as entity from "./schema/entity.ts";
import * as fabric from "./schema/fabric.ts";
import * as identity from "./schema/identity.ts";
import * as informational from "./schema/informational.ts";
import * as policy from "./schema/policy.ts";
import * as posture from "./schema/posture/types.ts";
import * as router from "./schema/router.ts";
import * as service from "./schema/service.ts";
import * as session from "./schema/session.ts";

export interface OpenApiDocument {
  readonly openapi: "3.1.0";
  readonly info: { readonly title: string; readonly version: string; readonly description: string };
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>;
  readonly components: JsonObject;
}

type JsonObject = { readonly [name: string]: unknown };

const TITLES: Readonly<Record<ApiName, string>> = {
  client: "Sallyport Client API",
  management: "Sallyport Management API",
  fabric: "Sallyport Fabric API",
};
const DESCRIPTIONS: Readonly<Record<ApiName, string>> = {
  client: "What applications call that dial and host services.",
  management: "What administrators call to manage the network.",
  fabric: "What administrators call to look into the running network and to steer it.",
};

const SCHEMA_FILES = [
  authenticator,
  entity,
  fabric,
  identity,
  informational,
  policy,
  posture,
  router,
  service,
  session,
];

/** Names of shapes that become components: those that a schema file exports. */
const NAMES = new Map<z.ZodType, string>();
for (const file of SCHEMA_FILES) {
  for (const [name, shape] of Object.entries(file)) {
    if (shape instanceof z.ZodObject || shape instanceof z.ZodDiscriminatedUnion) NAMES.set(shape, name);
  }
}

/** @param options `oidc`: clients can log in by OIDC, and access tokens are sessions */
export function openApiDocument(api: ApiName, options: { readonly oidc: boolean }): OpenApiDocument {
  const components = new Components();
  const paths: Record<string, Record<string, JsonObject>> = {};
  for (const [operationId, operation] of Object.entries<Operation>(operations[api])) {
    paths[operation.path] ??= {};
    Object.assign(paths[operation.path] ?? {}, {
      [operation.method.toLowerCase()]: describe(operationId, operation, components, options),
    });
  }
  return {
    openapi: "3.1.0",
    info: { title: TITLES[api], version: API_VERSIONS[api].description, description: DESCRIPTIONS[api] },
    servers: [{ url: BASE_PATHS[api] }],
    paths,
    components: {
      securitySchemes: {
        ztSession: { type: "apiKey", in: "header", name: "zt-session" },
        svcSession: { type: "apiKey", in: "header", name: "svc-session" },
        bearer: {
          ...{ type: "http", scheme: "bearer", bearerFormat: "JWT" },
          description:
            "A token of an external signer: to authenticate by, or beside the session where the authentication policy asks for one as second factor. It is no session.",
        },
        ...(options.oidc ? { oauth2: OAUTH2 } : {}),
      },
      schemas: components.schemas,
    },
  };
}

const OAUTH2 = {
  type: "oauth2",
  description: "An access token of the controller, as bearer: a session of the identity that logged in.",
  flows: {
    authorizationCode: {
      authorizationUrl: "/oidc/authorize",
      tokenUrl: "/oidc/oauth/token",
      refreshUrl: "/oidc/oauth/token",
      scopes: { openid: "Who has logged in", offline_access: "A refresh token" },
    },
  },
};

class Components {
  readonly schemas: Record<string, unknown> = {};

  /** A reference to the component of a named shape, or the schema itself. `io` distinguishes requests from answers. */
  use(shape: z.ZodType, io: "input" | "output"): unknown {
    if (shape instanceof z.ZodArray) return { type: "array", items: this.use(shape.element as z.ZodType, io) };
    const name = NAMES.get(shape);
    if (name === undefined) return jsonSchema(shape, io);
    this.schemas[name] ??= jsonSchema(shape, io);
    return { $ref: `#/components/schemas/${name}` };
  }
}

function jsonSchema(shape: z.ZodType, io: "input" | "output"): unknown {
  const { $schema: _dialect, ...schema } = z.toJSONSchema(shape, {
    io,
    unrepresentable: "any",
    // The server sends nothing else, but a client must stand what a later version adds.
    override: ({ jsonSchema: made }) => {
      if (made.additionalProperties === false) delete made.additionalProperties;
    },
  });
  return io === "input" ? takingNulls(schema) : schema;
}

/** A request may say null for every field that it may leave out. */
function takingNulls(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(takingNulls);
  if (typeof schema !== "object" || schema === null) return schema;
  const copy: Record<string, unknown> = Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [name, takingNulls(value)]),
  );
  const { properties, required } = copy;
  if (typeof properties === "object" && properties !== null) {
    const needed = Array.isArray(required) ? required : [];
    copy.properties = Object.fromEntries(
      Object.entries(properties).map(([name, value]) => [
        name,
        needed.includes(name) ? value : { anyOf: [value, { type: "null" }] },
      ]),
    );
  }
  return copy;
}

/** What a request may show, one of these; with `{}` also nothing. */
const TO_AUTHENTICATE = [{}, { bearer: [] }];
const TO_ENROLL = [{ bearer: [] }];
const WITH_SESSION = [
  { ztSession: [] },
  { svcSession: [] },
  { ztSession: [], bearer: [] },
  { svcSession: [], bearer: [] },
];
const WITH_ACCESS_TOKEN = [...WITH_SESSION, { oauth2: ["openid"] }, { oauth2: ["openid"], bearer: [] }];

function describe(
  operationId: string,
  operation: Operation,
  components: Components,
  { oidc }: { readonly oidc: boolean },
): JsonObject {
  const { summary, auth, response } = operation;
  const errors = [...new Set([...operation.errors, ...(auth === "public" ? [] : [401]), 503])].sort((a, b) => a - b);
  const body = requestBody(operation.body, components);
  return {
    operationId,
    summary,
    tags: [tagOf(operation.path)],
    security: securityOf(operation, oidc),
    "x-auth": auth,
    parameters: parameters(operation),
    ...(body === undefined ? {} : { requestBody: body }),
    responses: {
      ...(operation.unserved === undefined
        ? { [response.status]: { description: "Success", ...content(response, components) } }
        : {}),
      ...Object.fromEntries(errors.map((status) => [status, errorResponse(status, components)])),
    },
  };
}

function securityOf({ auth, issuesSession, takesExternalToken }: Operation, oidc: boolean) {
  if (issuesSession) return TO_AUTHENTICATE;
  if (takesExternalToken) return TO_ENROLL;
  if (auth === "public") return [];
  return oidc ? WITH_ACCESS_TOKEN : WITH_SESSION;
}

function tagOf(path: string): string {
  return path.split("/")[1]?.replace(/^\.well-known$/, "") || "informational";
}

function pageParameters(paging: ReturnType<typeof pagingOf>) {
  if (paging === undefined) return [];
  return [
    ["limit", "integer", `Entries to send; ${paging.defaultLimit} when absent, at most 500, -1 for all`],
    ["offset", "integer", "Entries to skip"],
    ["filter", "string", "Which entries, in what order"],
    ["sort", "string", "Order, where the filter says none: `name asc, createdAt desc`"],
  ] as const;
}

function parameters({ path, query, headers = [], response }: Operation): JsonObject[] {
  const schema = { type: "string" };
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({ name, in: "path", required: true, schema }));
  const paging = pageParameters(pagingOf(response)).map(([name, type, description]) => {
    return { name, in: "query", schema: { type }, description };
  });
  const own = Object.entries(query.shape).map(([name, shape]) => {
    const type = shape as z.ZodType;
    return { name, in: "query", required: !type.safeParse(undefined).success, schema: jsonSchema(type, "output") };
  });
  const inHeader = headers.map((header) => ({ ...header, in: "header", required: false, schema }));
  return [...inPath, ...paging, ...own, ...inHeader];
}

function requestBody(body: BodySpec, components: Components): JsonObject | undefined {
  if (body.kind === "none") return undefined;
  const texts = body.kind === "json" ? [] : body.textTypes;
  const text = Object.fromEntries(texts.map((type) => [type, { schema: { type: "string" } }]));
  if (body.kind === "text") return { required: true, content: text };
  const json = { "application/json": { schema: components.use(body.schema, "input") } };
  return { required: body.kind === "json" && body.required, content: { ...json, ...text } };
}

function content(response: ResponseSpec, components: Components): JsonObject {
  if (response.kind === "raw") {
    const types = response.contentTypes.map((type) => [type, { schema: { type: "string" } }]);
    return { content: Object.fromEntries(types) };
  }
  if (response.kind === "bare") {
    return { content: { "application/json": { schema: components.use(response.data, "output") } } };
  }
  const data =
    response.kind === "list"
      ? { type: "array", items: components.use(response.item, "output") }
      : response.kind === "detail"
        ? components.use(response.data, "output")
        : response.kind === "create"
          ? components.use(entity.createLocation, "output")
          : { type: "object", properties: {} };
  const meta = components.use(entity.meta, "output");
  const schema = { type: "object", required: ["data", "meta"], properties: { data, meta } };
  const texts = response.kind === "detail" ? (response.textTypes ?? []) : [];
  const text = Object.fromEntries(texts.map((type) => [type, { schema: { type: "string" } }]));
  return { content: { "application/json": { schema }, ...text } };
}

function errorResponse(status: number, components: Components): JsonObject {
  const codes = Object.entries(API_ERRORS).flatMap(([code, error]) => (error.status === status ? [code] : []));
  const schema = components.use(entity.errorEnvelope, "output");
  return { description: codes.join(", "), content: { "application/json": { schema } } };
}
