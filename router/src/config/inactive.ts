import type { RouterConfig } from "@sallyport/router-config";

/** What the file asks for that this router does not do, one line each: `key: why it does not act`. */
export function inactiveSettings(config: RouterConfig): string[] {
  const lines: string[] = [];
  const say = (when: boolean, line: string): void => {
    if (when) lines.push(line);
  };
  say(config.trace !== undefined, "trace: control messages are not written to a file");
  say(config.profile !== undefined, "profile: use the profiler of Node.js");
  say(config.transport !== undefined, "transport: transports have no settings here");
  say(config.web.length > 0, "web: the health-checks API is not served");
  say(config.plugins.length > 0, "plugins: Go plug-ins cannot be loaded");
  say(config.proxy?.type === "http", "proxy: controllers and routers are dialled directly");
  say(config.enableDebugOps, "enableDebugOps: there is no agent");
  const { enabled, maxSize } = config.ctrl.rateLimiter;
  say(!enabled || maxSize !== 250, "ctrl.rateLimiter: forwarder.rateLimitedWorkerCount bounds what is asked at a time");
  say(config.edge?.apiProxy !== undefined, "edge.apiProxy: the controller's API is not proxied");
  const kinds = new Set(config.listeners.map((listener) => listener.binding).filter((binding) => binding !== "edge"));
  for (const binding of kinds) lines.push(`listeners[${binding}]: this binding does not listen`);
  for (const { binding } of config.dialers) {
    say(
      binding !== "transport" && binding !== "edge",
      `dialers[${binding}]: terminators of this binding are not dialled`,
    );
  }
  return lines;
}
