import type { X509Certificate } from "node:crypto";
import type { Path } from "@sallyport/config-file";
import type { CsrConfig, RouterConfig } from "@sallyport/router-config";
import { type CertificateRequest, covers, type Identity, parseCertificates } from "@sallyport/wire";
import type { Remark } from "./remark.ts";

/** The hosts that others are told to dial, and the keys they come from. */
function advertisedHosts(config: RouterConfig): { path: Path; host: string }[] {
  const links = (config.link?.listeners ?? []).map((listener, i) => ({
    path: ["link", "listeners", i, "advertise"],
    host: listener.advertise.host,
  }));
  // Browsers see the certificate of the web socket, where there is one.
  const isOwn = (protocol: string) => protocol !== "wss" || config.transport.wss.identity === undefined;
  const edges = config.listeners.flatMap((listener, i) =>
    listener.binding === "edge" && isOwn(listener.address.protocol)
      ? [{ path: ["listeners", i, "options", "advertise"], host: listener.advertise.host }]
      : [],
  );
  return [...links, ...edges];
}

/**
 * Advertised hosts that no certificate of the router covers, with their keys. A client that dials one would refuse the
 * certificate.
 */
export function uncoveredHosts(config: RouterConfig, identity: Identity): Remark[] {
  const pems = [identity.serverCertPem, ...(identity.altServerCerts ?? []).map((a) => a.certPem), identity.certPem];
  const certificates = pems.flatMap((pem) => (pem === undefined ? [] : parseCertificates(pem))).filter((c) => !c.ca);
  return advertisedHosts(config)
    .filter(({ host }) => !certificates.some((certificate: X509Certificate) => covers(certificate, host)))
    .map(({ path, host }) => ({
      path,
      text: `no certificate of the router is valid for ${host}; add it to csr.sans and renew: sallyport-router extend`,
    }));
}

/** Names of the `csr` section, DNS names and IP addresses, that the server certificate lacks: a renewal brings them. */
export function missingNames(csr: CsrConfig | undefined, { certPem, serverCertPem }: Identity): string[] {
  const [leaf] = parseCertificates(serverCertPem ?? certPem);
  if (csr === undefined || leaf === undefined) return [];
  const listed = new Set((leaf.subjectAltName ?? "").split(", "));
  const isThere = (host: string): boolean => (host.includes("*") ? listed.has(`DNS:${host}`) : covers(leaf, host));
  return [...csr.sans.dns, ...csr.sans.ip].filter((host) => !isThere(host));
}

/** The request for a certificate of this router: its id as common name, the rest from the `csr` section. */
export function certificateRequest(routerId: string, csr: CsrConfig, keyPem: string): CertificateRequest {
  const fields: readonly (readonly [string, string | undefined])[] = [
    ["C", csr.country],
    ["ST", csr.province],
    ["L", csr.locality],
    ["O", csr.organization],
    ["OU", csr.organizationalUnit],
  ];
  const subject = Object.fromEntries(fields.flatMap(([name, value]) => (value ? [[name, value] as const] : [])));
  return { commonName: routerId, subject, sans: csr.sans, keyPem };
}
