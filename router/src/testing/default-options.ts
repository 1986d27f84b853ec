import { validateRouterConfig } from "@sallyport/router-config";
import { edgeOptions, forwarderOptions } from "../config/options.ts";
import { EDGE_LIMITS, type EdgeOptions } from "../edge/options.ts";
import type { ForwarderOptions } from "../forwarder/options.ts";

const { config } = validateRouterConfig({
  v: 3,
  identity: { cert: "r.cert", key: "r.key", ca: "r.ca" },
  ctrl: {},
  edge: {},
  listeners: [{ binding: "edge", address: "tls:127.0.0.1:0", options: { advertise: "r.example:3022" } }],
});
const [listener] = config.listeners;
if (listener?.binding !== "edge") throw new Error("the file has an edge listener");

/** Options of the parts of a router whose file sets nothing. */
export const DEFAULT_FORWARDER_OPTIONS: ForwarderOptions = forwarderOptions(config.forwarder);
export const DEFAULT_EDGE_OPTIONS: EdgeOptions = { ...EDGE_LIMITS, ...edgeOptions(listener), advertise: "" };
