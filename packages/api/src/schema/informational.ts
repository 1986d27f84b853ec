import { z } from "zod";
import { base } from "./entity.ts";
import { names, pem, time } from "./scalars.ts";

const apiVersion = z.strictObject({ apiBaseUrls: names, path: z.string(), version: z.string().optional() });

export const version = z.strictObject({
  /** API name (`edge`, `edge-client`, `edge-management`) to version name (`v1`) to where it is served. */
  apiVersions: z.record(z.string(), z.record(z.string(), apiVersion)),
  buildDate: z.string(),
  /** What is switched on. `OIDC_AUTH` makes clients log in over `/oidc`: never list it before that is served. */
  capabilities: names,
  revision: z.string(),
  runtimeVersion: z.string(),
  version: z.string(),
});

/** An API description; its name is its id. */
export const specDetail = z.strictObject({ ...base, name: z.string() });

export const capability = z.enum(["OIDC_AUTH", "HA_CONTROLLER", "OIDC_AUTH_WITH_CSR"]);

/** Protocol name to where the API listens for it. */
export const protocols = z.record(z.string(), z.strictObject({ address: z.string() }));

export const networkJwt = z.strictObject({ name: z.string(), token: z.string() });

const apiAddress = z.strictObject({ url: z.string().optional(), version: z.string().optional() });
export const controllerDetail = z.strictObject({
  ...base,
  apiAddresses: z.record(z.string(), z.array(apiAddress)).optional(),
  certPem: pem,
  ctrlAddress: z.string().nullable().optional(),
  fingerprint: z.string(),
  isOnline: z.boolean(),
  isPreferredLeader: z.boolean().optional(),
  lastJoinedAt: time.nullable(),
  name: z.string(),
});

/** Number of entities by collection. */
export const summary = z.record(z.string(), z.int());
