/** The server's half of the contract: what handles each operation of a table, and what it is called with and returns. */
import type { z } from "zod";
import type { ListQuery } from "./list-query.ts";
import type {
  BareResponse,
  BodySpec,
  CreateResponse,
  DetailResponse,
  JsonBody,
  JsonOrTextBody,
  ListResponse,
  Operation,
  OperationTable,
  PagedDetailResponse,
  PathParams,
  RawResponse,
  ResponseSpec,
  TextBody,
} from "./operation.ts";

type BodyOutput<B extends BodySpec> =
  B extends JsonBody<infer S>
    ? z.output<S>
    : B extends JsonOrTextBody<infer S>
      ? { readonly json?: z.output<S>; readonly text?: string }
      : B extends TextBody
        ? string
        : undefined;

/** What a handler returns for each kind of response. `headers` are added to the answer. */
export interface ListResult<T> {
  readonly data: readonly T[];
  /** Matches irrespective of paging. Left out by lists that are not paged. */
  readonly totalCount?: number;
  readonly filterableFields?: readonly string[];
  readonly headers?: Readonly<Record<string, string>>;
}
export interface DetailResult<T> {
  readonly data: T;
  /** Only where the data itself holds a list of which clients want to know the length. */
  readonly pagination?: { readonly limit: number; readonly offset: number; readonly totalCount: number };
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent instead of `data`: text of one of the response's `textTypes`. */
  readonly text?: { readonly body: string; readonly contentType: string } | undefined;
}
export interface CreateResult {
  readonly id: string;
}
export interface RawResult {
  readonly body: string | Uint8Array;
  /** One of the operation's content types; the first one by default. */
  readonly contentType?: string;
}

export type ResultOf<R extends ResponseSpec> =
  R extends ListResponse<infer I>
    ? ListResult<z.input<I>>
    : R extends DetailResponse<infer D> | BareResponse<infer D>
      ? DetailResult<z.input<D>>
      : R extends CreateResponse
        ? CreateResult
        : R extends RawResponse
          ? RawResult
          : // biome-ignore lint/suspicious/noConfusingVoidType: a handler without a result returns nothing
            void;

/** What a handler is called with. `S` is the server's session type, `Q` its view of the request. */
export interface HandlerContext<O extends Operation, S, Q> {
  readonly params: PathParams<O["path"]>;
  readonly query: z.output<O["query"]>;
  readonly body: BodyOutput<O["body"]>;
  /** Parsed `limit`, `offset`, `filter` and `sort`; only on paged lists. */
  readonly list: O["response"] extends ListResponse<z.ZodType, true> | PagedDetailResponse ? ListQuery : undefined;
  readonly session: O["auth"] extends "public" ? S | undefined : S;
  readonly request: Q;
}

export type OperationHandler<O extends Operation, S, Q> = (
  context: HandlerContext<O, S, Q>,
) => Promise<ResultOf<O["response"]>>;

/** One handler for each operation of a table: leaving one out, or adding one too many, is a type error. */
export type Handlers<T extends OperationTable, S, Q> = { readonly [K in keyof T]: OperationHandler<T[K], S, Q> };
