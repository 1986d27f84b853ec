/** Types of the client's calls, derived from the operations. */
import type { z } from "zod";
import type {
  BareResponse,
  CreateResponse,
  DetailResponse,
  EmptyResponse,
  JsonBody,
  JsonOrTextBody,
  ListResponse,
  Method,
  Operation,
  OperationTable,
  PagedDetailResponse,
  PathParams,
  RawResponse,
  TextBody,
} from "../operation.ts";
import type { ApiName, operations } from "../operations/apis.ts";
import type { createLocation, Meta, pagination } from "../schema/entity.ts";

type Nothing = Record<never, never>;

/** Parameters of every paged list; `limit` -1 is everything. */
export interface PageParameters {
  readonly limit?: number;
  readonly offset?: number;
  readonly filter?: string;
  readonly sort?: string;
}

type Params<P extends string> = keyof PathParams<P> extends never ? Nothing : { readonly params: PathParams<P> };

/** Zod gives an object without keys the type of one that may have none at all, which nothing could be added to. */
type OwnQuery<S extends z.ZodRawShape> = keyof S extends never ? Nothing : z.input<z.ZodObject<S>>;
type QueryInput<O extends Operation> = OwnQuery<O["query"]["shape"]> &
  (O["response"] extends ListResponse<z.ZodType, true> | PagedDetailResponse ? PageParameters : Nothing);
type Query<O extends Operation> =
  Nothing extends QueryInput<O> ? { readonly query?: QueryInput<O> } : { readonly query: QueryInput<O> };

type CallBody<O extends Operation> =
  O["body"] extends JsonBody<infer S>
    ? Nothing extends z.input<S>
      ? { readonly body?: z.input<S> }
      : { readonly body: z.input<S> }
    : O["body"] extends JsonOrTextBody<infer S>
      ? { readonly body?: z.input<S>; readonly text?: string; readonly textType?: string }
      : O["body"] extends TextBody
        ? { readonly text: string }
        : Nothing;

/** `params`, `query` and `body` of a call, as far as the operation has them. */
export type CallInput<O extends Operation> = Params<O["path"]> & Query<O> & CallBody<O>;

export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly headers?: RequestHeaders;
  /** Called when a connection is there: from then on the server may have got the request. */
  readonly onSent?: () => void;
}

/** A name with several values is sent several times. */
export type RequestHeaders = Readonly<Record<string, string | readonly string[]>>;

type ResponseHeaders = { readonly headers: Readonly<Record<string, string | undefined>> };

/** What a call gives: the envelope's two members, and the response headers in lower case. */
export type CallResult<O extends Operation> = ResponseHeaders &
  (O["response"] extends ListResponse<infer I>
    ? { readonly data: z.output<I>[]; readonly meta: Meta & { readonly pagination: z.infer<typeof pagination> } }
    : O["response"] extends DetailResponse<infer D>
      ? { readonly data: z.output<D>; readonly meta: Meta }
      : O["response"] extends CreateResponse
        ? { readonly data: z.infer<typeof createLocation>; readonly meta: Meta }
        : O["response"] extends EmptyResponse
          ? { readonly data: Nothing; readonly meta: Meta }
          : O["response"] extends RawResponse
            ? { readonly data: Buffer; readonly contentType: string }
            : O["response"] extends BareResponse<infer D>
              ? { readonly data: z.output<D> }
              : never);

type ApiCall<O extends Operation> =
  Nothing extends CallInput<O>
    ? (input?: CallInput<O>, options?: CallOptions) => Promise<CallResult<O>>
    : (input: CallInput<O>, options?: CallOptions) => Promise<CallResult<O>>;

export type Calls<T extends OperationTable> = { readonly [K in keyof T]: ApiCall<T[K]> };

/** What the client has to know of an operation to call it. */
export interface Route {
  readonly method: Method;
  /** Below the base path of its API, with `{name}` for parameters. */
  readonly path: string;
  /** What is sent; absent: nothing. */
  readonly body?: "json" | "json-or-text" | "text";
  /** Content type of a text, where it is not `text/plain`. */
  readonly textType?: string;
  /** Any client may call it, without a session. */
  readonly isPublic?: true;
  /** What comes back; absent: JSON in an envelope. */
  readonly answer?: "bare" | "raw";
}

export type Routes = Readonly<
  Record<ApiName, { readonly basePath: string; readonly routes: Readonly<Record<string, Route>> }>
>;

/** The typed calls of the Management API, for those who are given a session and neither begin nor end one. */
export type ManagementClient = Omit<
  Calls<(typeof operations)["management"]>,
  "authenticate" | "deleteCurrentAPISession"
>;
