import type { CsrConfig } from "@sallyport/router-config";
import type { CertificateRequest } from "@sallyport/wire";

/** The request for a certificate of this router: its id as common name, the rest from the `csr` section. */
export function certificateRequest(routerId: string, csr: CsrConfig, keyPem: string): CertificateRequest {
  const fields: readonly (readonly [string, string | undefined])[] = [
    ["C", csr.country],
    ["ST", csr.province],
    ["L", csr.locality],
    ["O", csr.organization],
    ["OU", csr.organizationalUnit],
  ];
  const subject = Object.fromEntries(fields.filter(([, value]) => value !== undefined && value !== "")) as Record<
    string,
    string
  >;
  return { commonName: routerId, subject, sans: csr.sans, keyPem };
}
