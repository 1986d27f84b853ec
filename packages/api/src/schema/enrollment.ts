import { z } from "zod";
import { password, pem, username } from "./scalars.ts";

/** Bodies of all enrollment operations; which fields count depends on the method. */
export const enroll = z.object({
  token: z.string().optional(),
  name: z.string().optional(),
  clientCsr: pem.optional(),
  certCsr: pem.optional(),
  serverCertCsr: pem.optional(),
  serverCsr: pem.optional(),
  username: username.optional(),
  password: password.optional(),
});
export const routerExtend = z.object({ certCsr: pem, serverCertCsr: pem });
export const enrollmentCerts = z.strictObject({ ca: pem.optional(), cert: pem.optional(), serverCert: pem.optional() });
/** `{cert}` for `ott`, `{cert, serverCert, ca}` for routers, `{username}` for `updb`, `{}` for presented certificates. */
export const enrolled = z.strictObject({ ...enrollmentCerts.shape, username: z.string().optional() });
/** Asks the holder of a certificate to extend it, with a new key when `rollKeys`. */
export const requestExtend = z.object({ rollKeys: z.boolean().default(false) });
