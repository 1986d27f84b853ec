/** The Management API as typed calls on a caller, which has its session and says what fails as every command does. */
import { type CallOptions, type ManagementClient, pathOf, ROUTES } from "@sallyport/api/client";
import type { ApiCaller, ApiRequest } from "./api-caller.ts";

interface Input {
  readonly params?: Readonly<Record<string, string>>;
  readonly query?: NonNullable<ApiRequest["query"]>;
  readonly body?: unknown;
}

export function managementClient(caller: ApiCaller): ManagementClient {
  const { basePath, routes } = ROUTES.management;
  const calls = Object.entries(routes).map(([id, route]) => [
    id,
    async ({ params, query, body }: Input = {}, options: CallOptions = {}) => {
      const request = { method: route.method, path: `${basePath}${pathOf(route, params)}`, body };
      const headers = Object.entries(options.headers ?? {}).map(([name, value]) => [name, String(value)]);
      const { data, meta, etag } = await caller.json({
        ...request,
        ...(query !== undefined && { query }),
        headers: Object.fromEntries(headers),
      });
      return { data, meta, headers: etag === undefined ? {} : { etag } };
    },
  ]);
  return Object.fromEntries(calls) as ManagementClient;
}
