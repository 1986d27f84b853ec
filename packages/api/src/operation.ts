/**
 * The mechanism of the contract: what one operation of an API is, and the builders that the tables in `operations/` use.
 * Routes of the server, OpenAPI documents, the typed client and the contract tests are all derived from these records
 * (CONTRIBUTING.md, "An operation of the HTTP API").
 */
import { z } from "zod";
import { DEFAULT_LIMIT } from "./list-query.ts";

/**
 * The callers of an operation:
 * `public` any client; `partial` a session whose secondary factors may still be open; `full` a fully authenticated session;
 * `admin` a fully authenticated session of an administrator.
 */
export type AuthRule = "public" | "partial" | "full" | "admin";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** No request body is read. */
export interface EmptyBody {
  readonly kind: "none";
}

/** A JSON document. When it is not `required`, an absent body counts as `{}`. */
export interface JsonBody<S extends z.ZodType = z.ZodType> {
  readonly kind: "json";
  readonly schema: S;
  readonly required: boolean;
}

/**
 * A JSON document, or text (such as a PEM request) under one of `textTypes` or without a content type.
 * Neither has to be there: enrollment by a presented certificate sends nothing.
 */
export interface JsonOrTextBody<S extends z.ZodType = z.ZodType> {
  readonly kind: "json-or-text";
  readonly schema: S;
  readonly textTypes: readonly string[];
}

/** Text, such as a PEM certificate, under one of `textTypes`. It must be there; errors call it `name`. */
export interface TextBody {
  readonly kind: "text";
  readonly name: string;
  readonly textTypes: readonly string[];
}

export type BodySpec = EmptyBody | JsonBody | JsonOrTextBody | TextBody;

/** A collection: `data` is an array; when `paged`, `limit`, `offset`, `filter` and `sort` are read and `meta.pagination` is sent. */
export interface ListResponse<I extends z.ZodType = z.ZodType, Paged extends boolean = boolean> {
  readonly kind: "list";
  readonly status: 200;
  readonly item: I;
  readonly paged: Paged;
}

export interface DetailResponse<D extends z.ZodType = z.ZodType> {
  readonly kind: "detail";
  readonly status: 200 | 201;
  readonly data: D;
  /** Content types besides JSON in an envelope that the handler can answer with, when `Accept` asks for one. */
  readonly textTypes?: readonly string[];
}

/** An object with one list in it, which is cut like a collection; without a `limit` it has as many entries as `paged` says. */
export interface PagedDetailResponse<D extends z.ZodType = z.ZodType> extends DetailResponse<D> {
  readonly paged: { readonly defaultLimit: number };
}

/** 201 with the id of what was made, and a link to it in `collection`. */
export interface CreateResponse {
  readonly kind: "create";
  readonly status: 200 | 201;
  readonly collection: string;
}

/** `{"data":{},"meta":{}}`. */
export interface EmptyResponse {
  readonly kind: "empty";
  readonly status: 200 | 202;
}

/** A body that is not JSON in an envelope; the first content type is the default one. */
export interface RawResponse {
  readonly kind: "raw";
  readonly status: 200;
  readonly contentTypes: readonly [string, ...string[]];
  readonly headers: Readonly<Record<string, string>>;
}

/** JSON that is not wrapped in an envelope. */
export interface BareResponse<D extends z.ZodType = z.ZodType> {
  readonly kind: "bare";
  readonly status: 200;
  readonly data: D;
}

export type ResponseSpec =
  | ListResponse
  | DetailResponse
  | PagedDetailResponse
  | CreateResponse
  | EmptyResponse
  | RawResponse
  | BareResponse;

/** A request header that an operation reads. None has to be there. */
export interface HeaderParameter {
  /** In small letters. */
  readonly name: string;
  readonly description: string;
}

export interface Operation<
  P extends string = string,
  A extends AuthRule = AuthRule,
  Q extends z.ZodRawShape = z.ZodRawShape,
  B extends BodySpec = BodySpec,
  R extends ResponseSpec = ResponseSpec,
> {
  readonly method: Method;
  /** Relative to the base path of the API; `{name}` stands for one path segment. */
  readonly path: P;
  readonly auth: A;
  readonly summary: string;
  /** Query parameters besides those of paged lists. */
  readonly query: z.ZodObject<Q>;
  /** Headers that it reads besides those of the session. */
  readonly headers?: readonly HeaderParameter[];
  readonly body: B;
  readonly response: R;
  /** Documented error statuses; 404 for an unknown path and 5xx apply everywhere. */
  readonly errors: readonly number[];
  /** The answer's `data.token` is a new session: it is also sent in the headers `zt-session` and `svc-session`. */
  readonly issuesSession?: true;
  /** A token of an external signer is shown, as bearer; there is no session yet. */
  readonly takesExternalToken?: true;
  /** Set on an operation of the published description that Sallyport does not serve: why. Callers who may ask get 501 and this text. */
  readonly unserved?: string;
}

export type OperationTable = Readonly<Record<string, Operation>>;

/** The names between braces of a path, as an object type. */
export type PathParams<P extends string> = P extends `${string}{${infer Name}}${infer Rest}`
  ? { readonly [K in Name]: string } & PathParams<Rest>
  : unknown;

/** No query parameters of its own. */
type NoQuery = Record<never, never>;

type Options<Q extends z.ZodRawShape> = { readonly query?: Q; readonly errors?: readonly number[] };

export const emptyBody: EmptyBody = { kind: "none" };

/** What may go wrong in a request with a body or list parameters; below an entity, that one may also be missing. */
function statuses(path: string): readonly number[] {
  return path.includes("{") ? [400, 401, 404, 429] : [400, 401, 429];
}

function query<Q extends z.ZodRawShape>(shape: Q | undefined): z.ZodObject<Q> {
  return z.object(shape ?? ({} as Q));
}

/** A JSON body that must be there. */
export function json<S extends z.ZodType>(schema: S): JsonBody<S> {
  return { kind: "json", schema, required: true };
}

/** A JSON body that may be left out and then counts as `{}`. */
export function optionalJson<S extends z.ZodType>(schema: S): JsonBody<S> {
  return { kind: "json", schema, required: false };
}

/** A paged, filterable collection. */
export function list<P extends string, A extends AuthRule, I extends z.ZodType, Q extends z.ZodRawShape = NoQuery>(
  path: P,
  auth: A,
  item: I,
  summary: string,
  options: Options<Q> = {},
): Operation<P, A, Q, EmptyBody, ListResponse<I, true>> {
  const response = { kind: "list", status: 200, item, paged: true } as const;
  const errors = options.errors ?? statuses(path);
  return { method: "GET", path, auth, summary, query: query(options.query), body: emptyBody, response, errors };
}

/** A collection that is sent whole. */
export function wholeList<P extends string, A extends AuthRule, I extends z.ZodType, Q extends z.ZodRawShape = NoQuery>(
  path: P,
  auth: A,
  item: I,
  summary: string,
  options: Options<Q> = {},
): Operation<P, A, Q, EmptyBody, ListResponse<I, false>> {
  const response = { kind: "list", status: 200, item, paged: false } as const;
  const errors = options.errors ?? [401, 404, 429];
  return { method: "GET", path, auth, summary, query: query(options.query), body: emptyBody, response, errors };
}

export function detail<P extends string, A extends AuthRule, D extends z.ZodType, Q extends z.ZodRawShape = NoQuery>(
  path: P,
  auth: A,
  data: D,
  summary: string,
  options: Options<Q> = {},
): Operation<P, A, Q, EmptyBody, DetailResponse<D>> {
  const response = { kind: "detail", status: 200, data } as const;
  const errors = options.errors ?? [401, 404, 429];
  return { method: "GET", path, auth, summary, query: query(options.query), body: emptyBody, response, errors };
}

/** GET of one object with a list in it, which is filtered and paged. */
export function pagedDetail<P extends string, A extends AuthRule, D extends z.ZodType>(
  path: P,
  auth: A,
  data: D,
  summary: string,
  options: { readonly defaultLimit: number; readonly errors: readonly number[] },
): Operation<P, A, NoQuery, EmptyBody, PagedDetailResponse<D>> {
  const { defaultLimit, errors } = options;
  const response = { kind: "detail", status: 200, data, paged: { defaultLimit } } as const;
  return { method: "GET", path, auth, summary, query: query<NoQuery>(undefined), body: emptyBody, response, errors };
}

/** How a paged response is cut by default; undefined for other responses, which read no list parameters. */
export function pagingOf(response: ResponseSpec): { readonly defaultLimit: number } | undefined {
  if (response.kind === "list") return response.paged ? { defaultLimit: DEFAULT_LIMIT } : undefined;
  return "paged" in response ? response.paged : undefined;
}

/** POST that answers 201 with an id; `collection` is the path's first part unless given. */
export function create<P extends string, A extends AuthRule, B extends BodySpec>(
  path: P,
  auth: A,
  body: B,
  summary: string,
  options: { readonly errors?: readonly number[]; readonly collection?: string; readonly status?: 200 | 201 } = {},
): Operation<P, A, NoQuery, B, CreateResponse> {
  const collection = options.collection ?? path.slice(1);
  const response = { kind: "create", status: options.status ?? 201, collection } as const;
  const errors = options.errors ?? statuses(path);
  return { method: "POST", path, auth, summary, query: query<NoQuery>(undefined), body, response, errors };
}

/** An operation that answers with an object of its own. */
export function call<
  P extends string,
  A extends AuthRule,
  B extends BodySpec,
  D extends z.ZodType,
  Q extends z.ZodRawShape = NoQuery,
>(
  method: Method,
  path: P,
  auth: A,
  body: B,
  data: D,
  summary: string,
  options: Options<Q> & { readonly status?: 200 | 201; readonly textTypes?: readonly string[] } = {},
): Operation<P, A, Q, B, DetailResponse<D>> {
  const { status = 200, textTypes } = options;
  const response = { kind: "detail", status, data, ...(textTypes && { textTypes }) } as const;
  const errors = options.errors ?? statuses(path);
  return { method, path, auth, summary, query: query(options.query), body, response, errors };
}

/** An operation that answers with an object of its own and no envelope around it. */
export function bare<P extends string, A extends AuthRule, B extends BodySpec, D extends z.ZodType>(
  method: Method,
  path: P,
  auth: A,
  body: B,
  data: D,
  summary: string,
): Operation<P, A, NoQuery, B, BareResponse<D>> {
  const response = { kind: "bare", status: 200, data } as const;
  return { method, path, auth, summary, query: query<NoQuery>(undefined), body, response, errors: [400, 401, 429] };
}

/** An operation that answers with the empty envelope. */
export function action<P extends string, A extends AuthRule, B extends BodySpec = EmptyBody>(
  method: Method,
  path: P,
  auth: A,
  body: B,
  summary: string,
  options: { readonly errors?: readonly number[]; readonly status?: 200 | 202 } = {},
): Operation<P, A, NoQuery, B, EmptyResponse> {
  const response = { kind: "empty", status: options.status ?? 200 } as const;
  const errors = options.errors ?? [400, 401, 404, 429];
  return { method, path, auth, summary, query: query<NoQuery>(undefined), body, response, errors };
}

/** An operation of the published description that Sallyport does not serve. It keeps its rule, so that only those who may ask learn why. */
export function unserved<P extends string, A extends AuthRule>(
  method: Method,
  path: P,
  auth: A,
  why: string,
): Operation<P, A, NoQuery, EmptyBody, EmptyResponse> & { readonly unserved: string } {
  const errors = auth === "public" ? [501] : [401, 501];
  return { ...action(method, path, auth, emptyBody, `Not served: ${why}`, { errors }), unserved: why };
}

export function replace<P extends string, A extends AuthRule, S extends z.ZodType>(
  path: P,
  auth: A,
  schema: S,
  summary: string,
): Operation<P, A, NoQuery, JsonBody<S>, EmptyResponse> {
  return action("PUT", path, auth, json(schema), summary);
}

export function patch<P extends string, A extends AuthRule, S extends z.ZodType>(
  path: P,
  auth: A,
  schema: S,
  summary: string,
): Operation<P, A, NoQuery, JsonBody<S>, EmptyResponse> {
  return action("PATCH", path, auth, json(schema), summary);
}

export function remove<P extends string, A extends AuthRule>(
  path: P,
  auth: A,
  summary: string,
): Operation<P, A, NoQuery, EmptyBody, EmptyResponse> {
  return action("DELETE", path, auth, emptyBody, summary, { errors: [400, 401, 404, 409, 429] });
}

/** GET of something that is not JSON in an envelope. */
export function raw<P extends string, A extends AuthRule>(
  path: P,
  auth: A,
  contentTypes: readonly [string, ...string[]],
  summary: string,
  headers: Readonly<Record<string, string>> = {},
): Operation<P, A, NoQuery, EmptyBody, RawResponse> {
  const response = { kind: "raw", status: 200, contentTypes, headers } as const;
  return {
    method: "GET",
    path,
    auth,
    summary,
    query: query<NoQuery>(undefined),
    body: emptyBody,
    response,
    errors: [],
  };
}
