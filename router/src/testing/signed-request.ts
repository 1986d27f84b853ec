import { createPrivateKey } from "node:crypto";
import { x509 } from "@sallyport/wire";
import type { TestAuthority } from "@sallyport/wire/testing";

/** A certificate for a request, with the names that it asks for: what a controller answers. */
export async function signedRequest(authority: TestAuthority, csrPem: string, lifetimeMs: number): Promise<string> {
  const csr = new x509.Pkcs10CertificateRequest(csrPem);
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const signingKey = await crypto.subtle.importKey(
    "pkcs8",
    createPrivateKey(authority.keyPem).export({ type: "pkcs8", format: "der" }),
    algorithm,
    false,
    ["sign"],
  );
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: "01",
    subject: csr.subject,
    issuer: new x509.X509Certificate(authority.certPem).subject,
    notBefore: new Date(Date.now() - 60_000),
    notAfter: new Date(Date.now() + lifetimeMs),
    publicKey: csr.publicKey,
    signingKey,
    signingAlgorithm: algorithm,
    extensions: csr.extensions,
  });
  return `${certificate.toString("pem")}\n`;
}
