import type { EdgeListenerConfig, LinkListenerConfig, RouterConfig } from "@sallyport/router-config";
import { interfaceOf } from "../config/network-interfaces.ts";

export type LinkListener = LinkListenerConfig & { readonly localBinding: string };

export function edgeListeners(config: RouterConfig): EdgeListenerConfig[] {
  return config.listeners.filter((l): l is EdgeListenerConfig => l.binding === "edge");
}

/** Link listeners with the name of the interface they are bound to; empty for all interfaces. */
export function linkListeners(config: RouterConfig): LinkListener[] {
  return (config.link?.listeners ?? []).map((listener) => ({
    ...listener,
    localBinding: listener.bindInterface ?? interfaceOf(listener.bind.host) ?? "",
  }));
}
