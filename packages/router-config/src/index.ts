/**
 * The router's configuration file: one schema with every default and bound, a reader that names path, line and column
 * of every error, and a writer.
 *
 * ```ts
 * const { config, warnings } = await loadRouterConfig("router.yml");
 * const text = writeRouterConfig({ v: 3, identity: { ... }, ctrl: { endpoint: "tls:ctrl.example:1280" } });
 * ```
 */
export {
  type CsrConfig,
  EDGE_DEFAULTS,
  type EdgeListenerConfig,
  type FlowConfig,
  type ForwarderConfig,
  type LinkConfig,
  type LinkDialerConfig,
  type LinkListenerConfig,
  type RouterConfig,
  type RouterConfigFile,
  routerConfigSchema,
} from "./schema.ts";
export { OUT_QUEUE_SIZE } from "./sections/channel.ts";
export { LINK_DEFAULTS } from "./sections/link.ts";
export { type ConfigNode, sectionShape, type ValueShape } from "./shape.ts";
export {
  type LoadedRouterConfig,
  loadRouterConfig,
  parseRouterConfig,
  type ReadOptions,
  validateRouterConfig,
} from "./validate.ts";
export { type IdleKey, WITHOUT_EFFECT } from "./without-effect.ts";
export { writeRouterConfig } from "./writer.ts";
