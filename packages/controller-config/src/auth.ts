import { isIP } from "node:net";
import { z } from "zod";

function count(fallback: number, max: number) {
  return z.int(`a whole number from 1 to ${max}`).min(1).max(max).default(fallback);
}

function rate(burst: number, perMinute: number) {
  return z.object({ burst: count(burst, 1_000_000), perMinute: count(perMinute, 60_000_000) }).prefault({});
}

/** An address, or a network as address and length of its prefix. */
function isNetwork(text: string): boolean {
  const [address = "", length, ...more] = text.split("/");
  const version = isIP(address);
  if (version === 0 || more.length > 0) return false;
  return length === undefined || (/^\d{1,3}$/.test(length) && Number(length) <= (version === 6 ? 128 : 32));
}

/** The section `auth`: limits on attempts, and where key sets of token issuers may be fetched from. */
export const authSchema = z
  .object({
    rateLimits: z
      .object({ enabled: z.boolean().default(true), address: rate(2_000, 12_000), failures: rate(50, 60) })
      .prefault({}),
    maxApiSessions: count(1_000, 1_000_000),
    jwks: z
      .object({
        allowedNetworks: z
          .array(z.string().refine(isNetwork, "a network or an address, for example 10.0.0.0/8"))
          .default([]),
        allowPlainHttp: z.boolean().default(false),
        caFile: z.string().min(1, "a file").optional(),
      })
      .prefault({}),
  })
  .prefault({});
