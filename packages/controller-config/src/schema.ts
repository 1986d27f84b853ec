import { z } from "zod";
import { eventsSchema } from "./events.ts";
import { replicaSchema } from "./replica.ts";
import {
  duration,
  file,
  hostName,
  integer,
  listenAddress,
  network,
  origin,
  postgresUrl,
  publicAddress,
  redirectUri,
} from "./values.ts";

/** Attempts: `burst` at once, and `perMinute` in the long run. */
function rate(burst: number, perMinute: number) {
  return z.object({ burst: integer(burst, 1, 1_000_000), perMinute: integer(perMinute, 1, 60_000_000) }).prefault({});
}

const LOG_FORMATS = ["auto", "json", "text"] as const;
const LEVELS = ["debug", "info", "warn", "error"] as const;

/** A refresh token has to outlive the access token by so much: a client needs that time to use it. */
const REFRESH_MARGIN_MS = 60_000;

/** Logins by OIDC. */
const oidc = z
  .object({
    enabled: z.boolean("true or false").default(true),
    accessToken: duration("30m", "1m", "24h"),
    idToken: duration("30m", "1m", "24h"),
    refreshToken: duration("24h", "2m", "90d"),
    keyLife: duration("90d", "1d", "3650d"),
    hosts: z.array(hostName, "a list of hosts").default([]),
    redirectUris: z.array(redirectUri, "a list of addresses").default([]),
    postLogoutUris: z.array(redirectUri, "a list of addresses").default([]),
  })
  .refine(({ accessToken, refreshToken }) => refreshToken >= accessToken + REFRESH_MARGIN_MS, {
    path: ["refreshToken"],
    message: "a duration that is longer than that of accessToken by at least 1m",
  })
  .prefault({});

/** The whole of `controller.yml`. Durations become milliseconds, addresses {@link HostPort}. */
export const controllerConfigSchema = z.object({
  v: z.literal(1, "1, the version of this file's format").default(1),
  api: z.object({
    bind: listenAddress,
    advertise: publicAddress,
    serverCertificates: z
      .array(
        z.object({
          cert: file(),
          key: file(),
        }),
        "a list of certificates, each with cert and key",
      )
      .default([]),
    web: z.object({ allowedOrigins: z.array(origin, "a list of origins").default([]) }).prefault({}),
    /** How long it serves on after it was told to stop. */
    drain: duration("0s", "0s", "10m"),
  }),
  ctrl: z.object({ bind: listenAddress, advertise: publicAddress }),
  replica: replicaSchema,
  database: z
    .object({
      url: postgresUrl.optional(),
      urlFile: file().optional(),
      dir: file("a folder").optional(),
      binaries: file("a folder").optional(),
      user: file("the name of a user of this system").optional(),
      poolSize: integer(16, 2, 200),
      snapshots: file("a folder").default("snapshots"),
    })
    .refine(({ url, urlFile, dir }) => [url, urlFile, dir].filter((value) => value !== undefined).length === 1, {
      message:
        "exactly one of url, urlFile (your own PostgreSQL, and a file with its URL) and dir (the folder of the embedded one)",
    }),
  secretKeyFile: file().optional(),
  edge: z
    .object({
      apiSessionTimeout: duration("30m", "1m"),
      enrollment: z
        .object({
          identity: duration("3h", "5m"),
          router: duration("3h", "5m"),
          sharedHosts: z
            .array(z.string().regex(/^[^\s/@*]+$/, "a host name or an address, without a port"), "a list of hosts")
            .default([]),
        })
        .prefault({}),
      totp: z
        .object({
          issuer: z
            .string()
            .regex(/^[^:]{1,64}$/, "a name of at most 64 characters, without a colon")
            .default("Sallyport"),
        })
        .prefault({}),
      oidc,
    })
    .prefault({}),
  /** Limits on attempts, and where key sets of token issuers may be fetched from. */
  auth: z
    .object({
      rateLimits: z
        // Generous: thousands may share one address behind a NAT.
        .object({ enabled: z.boolean().default(true), address: rate(2_000, 12_000), failures: rate(50, 60) })
        .prefault({}),
      maxApiSessions: integer(1_000, 1, 1_000_000),
      jwks: z
        .object({
          allowedNetworks: z.array(network).default([]),
          allowPlainHttp: z.boolean().default(false),
          caFile: file().optional(),
        })
        .prefault({}),
    })
    .prefault({}),
  certificates: z
    .object({
      controller: duration("365d", "1h", "36500d"),
      router: duration("365d", "1m", "36500d"),
      identity: duration("365d", "1m", "36500d"),
      session: duration("12h", "5m", "36500d"),
    })
    .prefault({}),
  network: z
    .object({
      createCircuitRetries: integer(2, 1, 100),
      routeTimeoutSeconds: integer(10, 1, 600),
      cycleSeconds: integer(60, 1, 86_400),
      minRouterCost: integer(10, 0, 65_535),
      initialLinkLatency: duration("65s", "0ms", "10m"),
      routerConnectChurnLimit: duration("1m", "0ms", "1h"),
      smart: z
        .object({
          rerouteFraction: z.number("a number from 0 to 1").min(0).max(1).default(0.02),
          rerouteCap: integer(4, 0, 1_000_000),
          minCostDelta: integer(15, 0, 1_000_000),
        })
        .prefault({}),
    })
    .prefault({}),
  events: eventsSchema,
  metrics: z
    .object({
      bind: listenAddress.optional(),
      scrapeCertificate: file("a file with a certificate").optional(),
    })
    .prefault({}),
  upkeep: z
    .object({
      changeLog: duration("1h", "1m", "30d"),
      expiredEnrollments: duration("30d", "1m", "3650d"),
      interval: duration("1m", "1s", "1d"),
    })
    .prefault({}),
  log: z
    .object({
      level: z.enum(LEVELS, `one of ${LEVELS.join(", ")}`).default("info"),
      format: z.enum(LOG_FORMATS, `one of ${LOG_FORMATS.join(", ")}`).default("auto"),
    })
    .prefault({}),
});

/** The checked content of `controller.yml`. */
export type ControllerConfig = z.infer<typeof controllerConfigSchema>;

const sections = controllerConfigSchema.shape;

/** Values of a file that sets nothing, for parts of the controller that are used without one. */
export const CONTROLLER_DEFAULTS = {
  auth: sections.auth.parse(undefined),
  certificates: sections.certificates.parse(undefined),
  network: sections.network.parse(undefined),
  poolSize: sections.database.shape.poolSize.parse(undefined),
} as const;
