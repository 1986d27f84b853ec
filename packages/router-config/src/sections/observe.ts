import { z } from "zod";
import { boolean, duration, hostPort, integer, name, oneOf, refuse, section, text } from "../scalars.ts";
import { identity } from "./identity.ts";

/** Reports to the controllers. Specification: "metrics". */
export const metrics = section({
  reportInterval: duration({ min: 1 }).default(60_000),
  messageQueueSize: integer({ min: 1 }).default(10),
  intervalAgeThreshold: duration({ min: 0 }).default(80_000),
  eventQueueSize: integer({ min: 16 }).default(256),
  enableDataDelayMetric: boolean().default(false),
});

/** Specification: "healthChecks". */
export const healthChecks = section({
  ctrlPingCheck: section({
    interval: duration({ min: 1 }).default(30_000),
    timeout: duration({ min: 1 }).default(15_000),
    initialDelay: duration({ min: 0 }).default(15_000),
  }).prefault({}),
  linkCheck: section({
    interval: duration({ min: 1 }).default(5000),
    initialDelay: duration({ min: 0 }).default(1000),
    minLinks: integer({ min: 0 }).default(0),
  }).prefault({}),
});

/** Specification: "trace". */
export const trace = section({ path: name("a file path") });

/** Specification: "profile". */
export const profile = section({
  cpu: section({ path: name("a file path") }).optional(),
  memory: section({
    path: name("a file path"),
    intervalMs: integer({ min: 1, unit: "ms" }).default(15_000),
  }).optional(),
});

const webServer = section({
  name: name(),
  apis: z
    .array(section({ binding: oneOf("health-checks", "metrics"), options: z.unknown().optional() }), "a list")
    .min(1, "at least one entry"),
  bindPoints: z
    .array(section({ interface: hostPort(), address: hostPort(), newAddress: text().optional() }), "a list")
    .min(1, "at least one entry"),
  identity: identity.optional(),
  options: section({
    readTimeout: duration({ min: 1 }).default(5000),
    writeTimeout: duration({ min: 1 }).default(10_000),
    idleTimeout: duration({ min: 1 }).default(5000),
    // Nothing older than TLS 1.2 is spoken, whatever the file allows.
    minTLSVersion: oneOf("TLS1.0", "TLS1.1", "TLS1.2", "TLS1.3").default("TLS1.2"),
    maxTLSVersion: oneOf("TLS1.2", "TLS1.3").default("TLS1.3"),
  })
    .superRefine(({ minTLSVersion: min, maxTLSVersion: max }, ctx) => {
      if (min > max) refuse(ctx, ["minTLSVersion"], `at most maxTLSVersion (${max})`, min);
    })
    .prefault({}),
});

/** HTTP servers of the router. Specification: "web". */
export const web = z.array(webServer, "a list");
