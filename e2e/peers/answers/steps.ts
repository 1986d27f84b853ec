/** One request each, by its method. */
import type { Step } from "./ask.ts";

type Body = NonNullable<Step["body"]>;

const withBody =
  (method: string) =>
  (path: string, body: Body, more: Partial<Step> = {}): Step => ({ method, path, body, ...more });

export const get = (path: string, more: Partial<Step> = {}): Step => ({ method: "GET", path, ...more });
export const post = withBody("POST");
export const patch = withBody("PATCH");
export const put = withBody("PUT");
export const remove = (path: string, more: Partial<Step> = {}): Step => ({ method: "DELETE", path, ...more });
