import type { RouterConfig } from "@sallyport/router-config";
import { loadSodium } from "@sallyport/sdk";
import { type Interceptor, ProxyInterceptor, SourceRoutes, TproxyInterceptor, Tunneler } from "@sallyport/tunnel";
import { RouterOverlay, type RouterOverlayOptions } from "./router-overlay.ts";

type TunnelConfig = Extract<RouterConfig["listeners"][number], { binding: "tunnel" }>;

interface TunnelerStart extends Omit<RouterOverlayOptions, "sodium"> {
  readonly mode: TunnelConfig["options"];
  /** Hosts and addresses that this router itself needs: they must not be intercepted. */
  readonly protectedAddresses: () => readonly string[];
  /** Is given each stop as soon as there is something to stop; they are called in reverse order. */
  readonly onStop: (stop: () => Promise<void>) => void;
}

/** Starts the tunneler of a router. @throws InterceptError when this machine does not support its mode */
export async function startTunneler(o: TunnelerStart): Promise<RouterOverlay> {
  const { log, onStop } = o;
  const sodium = await loadSodium();
  if (sodium.kind === "wasm") {
    log.warn({}, "libsodium's native module is not there: encryption from end to end costs several times as much");
  }
  const interceptor = await interceptorOf(o);
  if (interceptor !== undefined) onStop(() => interceptor.close());
  const overlay = new RouterOverlay({ ...o, sodium });
  onStop(() => overlay.close());
  const localRoutes = new SourceRoutes(log);
  onStop(() => localRoutes.close());
  const tunneler = new Tunneler({ overlay, interceptor, localRoutes, log });
  onStop(() => tunneler.close());
  tunneler.start();
  log.info({ mode: o.mode.mode }, "the tunneler waits for its services");
  return overlay;
}

async function interceptorOf({ mode, protectedAddresses, log }: TunnelerStart): Promise<Interceptor | undefined> {
  if (mode.mode === "host") return undefined;
  if (mode.mode === "proxy") {
    const services = mode.services.map(({ service: name, port, protocol }) => ({ name, port, protocol }));
    return new ProxyInterceptor({ services, udpIdleTimeoutMs: mode.udpIdleTimeout, log });
  }
  const { resolver, dnsSvcIpRange, lanIf } = mode;
  const times = { udpIdleTimeoutMs: mode.udpIdleTimeout, udpCheckIntervalMs: mode.udpCheckInterval };
  const diverter = mode.mode.startsWith("tproxy:") ? mode.mode.slice("tproxy:".length) : undefined;
  return TproxyInterceptor.open({ resolver, dnsSvcIpRange, lanIf, diverter, ...times, protectedAddresses, log });
}
