/** The Management API as typed calls on a caller, which has its session and says what fails as every command does. */
import { type ManagementClient, pathOf, ROUTES } from "@sallyport/api/client";
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
    async ({ params, query, body }: Input = {}) => {
      const request = { method: route.method, path: `${basePath}${pathOf(route, params)}`, body };
      return await caller.json(query === undefined ? request : { ...request, query });
    },
  ]);
  return Object.fromEntries(calls) as ManagementClient;
}
