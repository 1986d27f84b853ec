/** What the controller's own tokens say, by their names on the wire. Source: docs/protocol/authentication.md, "Own tokens". */
import { z } from "zod";

/** The two public clients. */
export const TOKEN_CLIENTS = ["openziti", "native"] as const;
export type TokenClient = (typeof TOKEN_CLIENTS)[number];

/** `z_t`: what a token is for. Id tokens have none. */
export const TOKEN_TYPE = { access: "a", refresh: "r", service: "s", totp: "t" } as const;

/** The content of a token is not that of its kind. The message names the claim, never its value. */
export class ClaimsError extends Error {
  override name = "ClaimsError";
}

const id = z.string().min(1).max(256);
const seconds = z.int().nonnegative();
const texts = z.array(z.string());
const audience = z.tuple([z.enum(TOKEN_CLIENTS)]);

const session = {
  iss: z.string(),
  sub: id,
  aud: audience,
  jti: id,
  iat: seconds,
  nbf: seconds,
  exp: seconds,
  auth_time: seconds,
  client_id: z.enum(TOKEN_CLIENTS),
  scopes: texts,
  amr: texts,
  z_asid: id,
  z_authid: z.string(),
  z_cfs: texts.nullable(),
};

const accessClaims = z.object({ ...session, z_t: z.literal(TOKEN_TYPE.access) });
const refreshClaims = z.object({ ...session, z_t: z.literal(TOKEN_TYPE.refresh) });
const idClaims = z.object({
  iss: z.string(),
  sub: id,
  aud: audience,
  azp: z.enum(TOKEN_CLIENTS),
  exp: seconds,
  iat: seconds,
  z_asid: id,
  z_t: z.undefined().optional(),
});
const serviceClaims = z.object({
  iss: z.string(),
  /** The service. */
  sub: id,
  aud: audience,
  /** The session. */
  jti: id,
  iat: seconds,
  exp: seconds,
  z_asid: id,
  z_iid: id,
  z_t: z.literal(TOKEN_TYPE.service),
  z_st: z.enum(["Dial", "Bind"]),
  z_leg: z.boolean(),
});
const totpClaims = z.object({
  iss: z.string(),
  sub: id,
  aud: audience,
  jti: id,
  iat: seconds,
  z_asid: id,
  z_t: z.literal(TOKEN_TYPE.totp),
});

export type AccessClaims = z.infer<typeof accessClaims>;
export type RefreshClaims = z.infer<typeof refreshClaims>;
export type IdClaims = z.infer<typeof idClaims>;
export type ServiceClaims = z.infer<typeof serviceClaims>;
export type TotpClaims = z.infer<typeof totpClaims>;

/** Each of these reads the payload of a token whose signature is good. @throws ClaimsError */
export const readAccessClaims = reader("an access token", accessClaims);
export const readRefreshClaims = reader("a refresh token", refreshClaims);
export const readAccessOrRefreshClaims = reader(
  "an access or refresh token",
  z.discriminatedUnion("z_t", [accessClaims, refreshClaims]),
);
export const readIdClaims = reader("an id token", idClaims);
export const readServiceClaims = reader("a service token", serviceClaims);
export const readTotpClaims = reader("a TOTP token", totpClaims);

function reader<C>(what: string, schema: z.ZodType<C>): (payload: unknown) => C {
  return (payload) => {
    const read = schema.safeParse(payload);
    if (read.success) return read.data;
    const claims = new Set(read.error.issues.map(({ path }) => String(path[0] ?? "payload")));
    throw new ClaimsError(`not ${what}: unexpected ${[...claims].join(", ")}`);
  };
}
