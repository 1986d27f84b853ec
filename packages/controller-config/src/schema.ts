import { z } from "zod";
import { authSchema } from "./auth.ts";
import { parseDuration } from "./duration.ts";
import { eventsSchema } from "./events.ts";

/** A place to listen on or to be reached at. */
export interface HostPort {
  /** Name or address without brackets; `""` = every interface (only for listening). */
  readonly host: string;
  readonly port: number;
}

const PORT = z.coerce.number().int().min(1).max(65_535);

/** Splits `host:port`, `[v6]:port` or `:port`. */
export function parseHostPort(text: string): HostPort | undefined {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]\s/]*)):(\d{1,5})$/.exec(text);
  const port = PORT.safeParse(match?.[3]);
  if (!match || !port.success) return undefined;
  return { host: match[1] ?? match[2] ?? "", port: port.data };
}

/** Joins them again, brackets around an IPv6 address. */
export function formatHostPort({ host, port }: HostPort): string {
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function hostPort(expected: string, allowEmptyHost: boolean) {
  return z.string().transform((text, context): HostPort => {
    const place = parseHostPort(text);
    if (place && (allowEmptyHost || place.host !== "")) return place;
    context.addIssue({ code: "custom", message: expected });
    return z.NEVER;
  });
}

const listenAddress = hostPort("a place to listen on, host:port, for example 0.0.0.0:1280", true);
const publicAddress = hostPort("an address that others can reach, host:port, for example ctrl.example.org:1280", false);

const ORIGIN = "an origin, https://host or https://host:port, as browsers write it (* is not possible)";
const origin = z.string(ORIGIN).refine((text) => /^https?:/.test(text) && URL.parse(text)?.origin === text, ORIGIN);

function duration(fallback: string, min: string, max?: string) {
  const least = parseDuration(min) ?? 0;
  const most = max === undefined ? Number.POSITIVE_INFINITY : (parseDuration(max) ?? 0);
  const bounds = max === undefined ? `of at least ${min}` : `from ${min} to ${max}`;
  const expected = `a duration ${bounds}, for example ${fallback}`;
  return z
    .union([z.string(), z.number()])
    .transform((text, context): number => {
      const value = parseDuration(String(text));
      if (value !== undefined && value >= least && value <= most) return value;
      context.addIssue({ code: "custom", message: expected });
      return z.NEVER;
    })
    .prefault(fallback);
}

function integer(fallback: number, min: number, max: number) {
  return z.int(`a whole number from ${min} to ${max}`).min(min).max(max).default(fallback);
}

/** The URL of a PostgreSQL database. */
export const postgresUrl = z.string().refine((text) => /^postgres(ql)?:\/\/\S+$/.test(text) && URL.canParse(text), {
  message: "a PostgreSQL URL, postgres://user:password@host/database",
});

const LOG_FORMATS = ["auto", "json", "text"] as const;
const LEVELS = ["debug", "info", "warn", "error"] as const;

/** The whole of `controller.yml`. Durations become milliseconds, addresses {@link HostPort}. */
export const controllerConfigSchema = z.object({
  v: z.literal(1, "1, the version of this file's format").default(1),
  api: z.object({
    bind: listenAddress,
    advertise: publicAddress,
    serverCertificates: z
      .array(
        z.object({
          cert: z.string("a file").min(1, "a file"),
          key: z.string("a file").min(1, "a file"),
        }),
        "a list of certificates, each with cert and key",
      )
      .default([]),
    web: z.object({ allowedOrigins: z.array(origin, "a list of origins").default([]) }).prefault({}),
  }),
  ctrl: z.object({ bind: listenAddress, advertise: publicAddress }),
  database: z
    .object({
      url: postgresUrl.optional(),
      urlFile: z.string().min(1, "a file").optional(),
      dir: z.string().min(1, "a folder").optional(),
      binaries: z.string().min(1, "a folder").optional(),
      user: z.string().min(1, "the name of a user of this system").optional(),
      poolSize: integer(16, 2, 200),
      snapshots: z.string().min(1, "a folder").default("snapshots"),
    })
    .refine(({ url, urlFile, dir }) => [url, urlFile, dir].filter((value) => value !== undefined).length === 1, {
      message:
        "exactly one of url, urlFile (a PostgreSQL of yours, and a file that says where) and dir (the folder of the embedded one)",
    }),
  secretKeyFile: z.string().min(1, "a file").optional(),
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
    })
    .prefault({}),
  auth: authSchema,
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
      scrapeCertificate: z.string().min(1, "a file with a certificate").optional(),
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
