/**
 * The controller's configuration file, `controller.yml`: reading with defaults, bounds and the place of every mistake, and writing with comments.
 *
 * ```ts
 * const { config, warnings } = await readControllerConfigFile("controller.yml");
 * config.edge.apiSessionTimeout; // 1800000: durations are milliseconds
 * config.api.bind; // { host: "0.0.0.0", port: 1280 }
 * ```
 */
export { type DatabaseUrl, DatabaseUrlError, parseDatabaseUrl, type ServerPlace } from "./database-url.ts";
export { type EventHandlerConfig, type EventSubscriptionConfig, eventSubscriptionSchema } from "./events.ts";
export { type ConfigRead, readControllerConfig, readControllerConfigFile } from "./read.ts";
export { REPLICA_OPTIONS, type ReplicaOptions } from "./replica.ts";
export { CONTROLLER_DEFAULTS, type ControllerConfig, controllerConfigSchema } from "./schema.ts";
export { parseHostPort, postgresUrl } from "./values.ts";
export { sharesPort, workerConfig } from "./workers.ts";
export { type NewControllerConfig, writeControllerConfig, yamlText } from "./write.ts";
