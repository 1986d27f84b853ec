import type { Method } from "../operation.ts";
import type { ApiName } from "../operations/apis.ts";

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
