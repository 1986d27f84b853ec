/**
 * The published description of the two edge APIs (version 0.26.14), as far as a table of operations can be held against it, and every place where
 * ours goes beyond it or differs. `contract.test.ts` fails on any difference that is not written down here.
 */
import type { AuthRule, Method } from "../operation.ts";
import published from "./published.json" with { type: "json" };

/** One operation as published. */
export interface PublishedOperation {
  readonly api: "client" | "management";
  readonly method: Method;
  readonly path: string;
  readonly operationId: string;
  readonly auth: AuthRule;
  readonly status: number;
  readonly contentType: string;
  /** Query parameters besides those of paged lists. */
  readonly query: readonly string[];
  /** `limit`, `offset` and `filter` are read. */
  readonly isPaged: boolean;
  readonly isBodyRequired: boolean;
  readonly errors: readonly number[];
}

type Row = readonly [
  PublishedOperation["api"],
  Method,
  string,
  string,
  AuthRule,
  number,
  string,
  readonly string[],
  boolean,
  boolean,
  readonly number[],
];

/** All 238 published operations. */
export function publishedOperations(): PublishedOperation[] {
  return (published as unknown as readonly Row[]).map(
    ([api, method, path, operationId, auth, status, contentType, query, isPaged, isBodyRequired, errors]) => ({
      api,
      method,
      path,
      operationId,
      auth,
      status,
      contentType,
      query,
      isPaged,
      isBodyRequired,
      errors,
    }),
  );
}
