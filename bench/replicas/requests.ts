import type { HttpAnswer, HttpRequest, LoadClient } from "../api/http-client.ts";

const API = "/edge/management/v1";

export const post = (path: string, body: unknown): HttpRequest => ({ method: "POST", path: API + path, body });
export const patch = (path: string, body: unknown): HttpRequest => ({ method: "PATCH", path: API + path, body });
export const get = (path: string): HttpRequest => ({ method: "GET", path: API + path });
export const remove = (path: string): HttpRequest => ({ method: "DELETE", path: API + path });

/** The data of an answer. */
export function dataOf<T>({ text }: HttpAnswer): T {
  return (JSON.parse(text) as { data: T }).data;
}

export const idOf = (answer: HttpAnswer): string => dataOf<{ id: string }>(answer).id;

/** How many entries a list has. */
export function totalOf({ text }: HttpAnswer): number {
  return (JSON.parse(text) as { meta: { pagination: { totalCount: number } } }).meta.pagination.totalCount;
}

const PAGE = 500;

/** How many routers have a control channel to the controller that is asked. */
export async function routersOnline({ client }: { readonly client: LoadClient }): Promise<number> {
  let online = 0;
  for (let offset = 0; ; offset += PAGE) {
    const path = `/edge-routers?limit=${PAGE}&offset=${offset}`;
    const routers = await client.data<{ isOnline: boolean }[]>(get(path));
    online += routers.filter(({ isOnline }) => isOnline).length;
    if (routers.length < PAGE) return online;
  }
}
