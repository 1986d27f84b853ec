import type { RouterConfig } from "@sallyport/router-config";
import type { HttpProxy } from "@sallyport/wire";

/** The proxy through which controllers and other routers are dialled; services are always reached directly. */
export function proxyOf({ proxy }: Pick<RouterConfig, "proxy">): HttpProxy | undefined {
  if (proxy?.type !== "http" || proxy.address === undefined) return undefined;
  const { username, password } = proxy;
  return { ...proxy.address, username, password };
}
