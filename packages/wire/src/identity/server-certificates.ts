import type { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { createSecureContext, type SecureContext, type SecureContextOptions } from "node:tls";
import { CertificateError, fingerprint, parseCertificates, readPrivateKey } from "./certificates.ts";

interface ServerCertificate {
  readonly leaf: X509Certificate;
  readonly chainPem: string;
  readonly keyPem: string;
  context?: SecureContext;
}

/**
 * The server certificates of one identity and the choice between them (docs/protocol/identity.md "Server
 * certificates"): the first one that covers the name asked for, else the first.
 */
export class ServerCertificates {
  readonly #candidates: ServerCertificate[];
  readonly #parameters: SecureContextOptions;

  /** @throws CertificateError when an entry cannot be read or its key does not fit */
  constructor(entries: readonly { certPem: string; keyPem: string }[], parameters: SecureContextOptions) {
    this.#parameters = parameters;
    this.#candidates = entries.flatMap(candidatesOf);
  }

  /** What a client that names no server is shown, as PEM. */
  get first(): { readonly certPem: string; readonly keyPem: string } {
    const [chosen] = this.#candidates;
    if (chosen === undefined) throw new CertificateError("CERTIFICATE_MISSING", "expected a server certificate");
    return { certPem: chosen.chainPem, keyPem: chosen.keyPem };
  }

  /** @param servername what the client asked for by SNI; left out when it named nothing */
  contextFor(servername?: string): SecureContext {
    const [first] = this.#candidates;
    const fitting = servername === undefined ? undefined : this.contextCovering(servername);
    if (fitting !== undefined) return fitting;
    if (first === undefined) throw new CertificateError("CERTIFICATE_MISSING", "expected a server certificate");
    return this.#contextOf(first);
  }

  /** As {@link contextFor}, but `undefined` when no certificate covers the name. */
  contextCovering(servername: string): SecureContext | undefined {
    if (servername === "") return undefined;
    const fitting = this.#candidates.find((candidate) => covers(candidate.leaf, servername));
    return fitting && this.#contextOf(fitting);
  }

  #contextOf(chosen: ServerCertificate): SecureContext {
    // No `ca` here: it would be announced to clients as the list of issuers they may choose a certificate from.
    chosen.context ??= createSecureContext({ ...this.#parameters, cert: chosen.chainPem, key: chosen.keyPem });
    return chosen.context;
  }
}

/** Whether a server that presents this certificate is the one that a client dialled as `host` (name or IP). */
export function covers(certificate: X509Certificate, host: string): boolean {
  if (isIP(host) !== 0) return certificate.checkIP(host) !== undefined;
  return (
    certificate.checkHost(host, { subject: "never", partialWildcards: false, multiLabelWildcards: false }) !== undefined
  );
}

function candidatesOf(entry: { certPem: string; keyPem: string }): ServerCertificate[] {
  const certificates = parseCertificates(entry.certPem);
  const leaves = certificates.filter((certificate) => !certificate.ca && isForServers(certificate));
  const chosen = leaves.length > 0 ? leaves : certificates.slice(0, 1);
  const key = readPrivateKey(entry.keyPem);
  const fitting = chosen.filter((leaf) => leaf.checkPrivateKey(key));
  if (fitting.length === 0) {
    throw new CertificateError(
      "KEY_MISMATCH",
      "the private key does not belong to any server certificate given with it",
    );
  }
  return fitting.map((leaf) => ({ leaf, chainPem: chainOf(leaf, certificates), keyPem: entry.keyPem }));
}

function isForServers(certificate: X509Certificate): boolean {
  const names = certificate.subjectAltName ?? "";
  return /(?:^|, )(?:DNS|IP Address):/.test(names) || (certificate.keyUsage?.length ?? 0) > 0;
}

function chainOf(leaf: X509Certificate, others: readonly X509Certificate[]): string {
  const chain = [leaf];
  const seen = new Set([fingerprint(leaf)]);
  for (;;) {
    const child = chain[chain.length - 1];
    const issuer = others.find(
      (candidate) => candidate.ca && !seen.has(fingerprint(candidate)) && child?.checkIssued(candidate) === true,
    );
    if (issuer === undefined) return chain.map(String).join("");
    seen.add(fingerprint(issuer));
    chain.push(issuer);
  }
}
