import { z } from "zod";
import { ipAddress, name, section, text, textList, uri } from "../scalars.ts";

const pem = (what: string) => name(`a file or inline PEM with ${what}`);

/** Certificates and keys. Each value is a file, `file:` URL, or inline PEM. Specification: "identity". */
export const identity = section({
  cert: pem("the client certificate"),
  key: pem("the private key"),
  server_cert: pem("the server certificate").optional(),
  server_key: pem("the key of the server certificate").optional(),
  ca: pem("the trusted certificates"),
  alt_server_certs: z
    .array(section({ server_cert: pem("a server certificate"), server_key: pem("its key").optional() }), "a list")
    .default([]),
});

const fields = text();

/** Subject and names of the certificate requests. Specification: "csr". */
export const csr = section({
  country: fields.optional(),
  province: fields.optional(),
  locality: fields.optional(),
  organization: fields.optional(),
  organizationalUnit: fields.optional(),
  sans: section({
    dns: textList().default([]),
    ip: z.array(ipAddress(), "a list of IP addresses").default([]),
    uri: z.array(uri(), "a list of URIs").default([]),
    email: textList().default([]),
  }).prefault({}),
});
