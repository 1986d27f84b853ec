import { isIP } from "node:net";
import { parseDuration } from "@sallyport/config-file";
import type { HostPort } from "@sallyport/wire";
import { z } from "zod";
import { parseDatabaseUrl } from "./database-url.ts";

const PORT = z.coerce.number().int().min(1).max(65_535);

/** Splits `host:port`, `[v6]:port` or `:port`, which stands for every interface. */
export function parseHostPort(text: string): HostPort | undefined {
  const match = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:[\]\s/]*)):(\d{1,5})$/.exec(text);
  const port = PORT.safeParse(match?.[3]);
  if (!match || !port.success) return undefined;
  return { host: match[1] ?? match[2] ?? "", port: port.data };
}

function hostPort(expected: string, allowEmptyHost: boolean) {
  return z.string().transform((text, context): HostPort => {
    const place = parseHostPort(text);
    if (place && (allowEmptyHost || place.host !== "")) return place;
    context.addIssue({ code: "custom", message: expected });
    return z.NEVER;
  });
}

export const listenAddress = hostPort("a place to listen on, host:port, for example 0.0.0.0:1280", true);
export const publicAddress = hostPort(
  "an address that others can reach, host:port, for example ctrl.example.org:1280",
  false,
);

const ORIGIN = "an origin, https://host or https://host:port, as browsers write it (* is not possible)";
/** An origin as browsers write it. */
export const origin = z
  .string(ORIGIN)
  .refine((text) => /^https?:/.test(text) && URL.parse(text)?.origin === text, ORIGIN);

const REDIRECT_URI =
  "an address to come back to, such as https://console.example.org/auth/callback, without user name and fragment; its port may be *";
/** Where a login may end: compared as text, but for a port that is `*`. */
export const redirectUri = z.string(REDIRECT_URI).refine((text) => {
  const url = URL.parse(text.replace(/^([a-z][a-z0-9+.-]*:\/\/[^/?#]*):\*(?=[/?#]|$)/i, "$1:1"));
  return (
    url !== null &&
    text.length <= 1_024 &&
    /^[!-~]+$/.test(text) &&
    !url.host.includes("*") &&
    !text.includes("#") &&
    `${url.username}${url.password}` === ""
  );
}, REDIRECT_URI);

const HOST = "a host name or an address, without a port; *.example.org stands for one label in front";
export const hostName = z
  .string(HOST)
  .refine((text) => isIP(text) !== 0 || /^(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*$/i.test(text), HOST);

/** A duration such as `30m` or `365d`; its value is in milliseconds. */
export function duration(fallback: string, min: string, max?: string) {
  const least = durationMs(min) ?? 0;
  const most = max === undefined ? Number.POSITIVE_INFINITY : (durationMs(max) ?? 0);
  const bounds = max === undefined ? `of at least ${min}` : `from ${min} to ${max}`;
  const expected = `a duration ${bounds}, for example ${fallback}`;
  return z
    .union([z.string(), z.number()])
    .transform((text, context): number => {
      const value = durationMs(String(text));
      if (value !== undefined && value >= least && value <= most) return value;
      context.addIssue({ code: "custom", message: expected });
      return z.NEVER;
    })
    .prefault(fallback);
}

function durationMs(text: string): number | undefined {
  const ms = parseDuration(text.replaceAll(" ", ""), { days: true });
  return ms === undefined ? undefined : Math.round(ms);
}

/** A whole number within bounds. */
export function integer(fallback: number, min: number, max: number) {
  return z.int(`a whole number from ${min} to ${max}`).min(min).max(max).default(fallback);
}

/** The URL of a PostgreSQL database, also one of several servers. */
export const postgresUrl = z.string().superRefine((text, context) => {
  try {
    parseDatabaseUrl(text);
  } catch (error) {
    context.addIssue({ code: "custom", message: (error as Error).message });
  }
});

/** An address, or a network as address and length of its prefix. */
export const network = z.string().refine((text) => {
  const [address = "", length, ...more] = text.split("/");
  const version = isIP(address);
  if (version === 0 || more.length > 0) return false;
  return length === undefined || (/^\d{1,3}$/.test(length) && Number(length) <= (version === 6 ? 128 : 32));
}, "a network or an address, for example 10.0.0.0/8");

/** A path, relative to the folder of the file. */
export const file = (what = "a file") => z.string(what).min(1, what);
