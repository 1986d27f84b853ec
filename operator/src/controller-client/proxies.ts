import type { Connect } from "@sallyport/api/client";
import { connectThroughProxy, proxyOf } from "@sallyport/wire";

const CONNECT_MS = 10_000;

/**
 * Connects to controllers through the proxy of the environment (`HTTPS_PROXY`, `NO_PROXY`), except to Services of the cluster. Without a proxy there is
 * no `connect`.
 */
export function byProxy(env: Readonly<Record<string, string | undefined>> = process.env): {
  readonly connect?: Connect;
} {
  if (!env.HTTPS_PROXY && !env.https_proxy) return {};
  return {
    async connect({ host, port }) {
      if (/\.svc(\.|$)/.test(host)) return undefined;
      const proxy = proxyOf(new URL(`https://${host.includes(":") ? `[${host}]` : host}:${port}`), env);
      if (proxy === undefined) return undefined;
      return await connectThroughProxy(proxy, { host, port }, { signal: AbortSignal.timeout(CONNECT_MS) });
    },
  };
}
