import type { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { isAbsolute, resolve } from "node:path";
import { createSecureContext, type SecureContext } from "node:tls";
import { fileURLToPath } from "node:url";
import { errorText } from "@sallyport/async";
import { WireError } from "../errors.ts";
import {
  CertificateError,
  commonName,
  fingerprint,
  parseCertificates,
  pemBlocks,
  readPrivateKey,
} from "./certificates.ts";
import { ServerCertificates } from "./server-certificates.ts";

/** An identity's configuration names something that cannot be used. The message says which key and why. */
export class IdentityError extends WireError {}

/** A further server certificate; the identity's own key when `keyPem` is left out. */
export interface ServerCertificatePem {
  readonly certPem: string;
  readonly keyPem?: string | undefined;
}

export interface IdentityPem {
  /** Leaf first, then its chain. */
  readonly certPem: string;
  readonly keyPem: string;
  readonly caPem?: string | undefined;
  readonly serverCertPem?: string | undefined;
  readonly serverKeyPem?: string | undefined;
  readonly altServerCerts?: readonly ServerCertificatePem[] | undefined;
}

/** Keys, certificates and trust of one component, ready for TLS. Immutable: a renewal makes a new one. */
export interface Identity extends IdentityPem {
  /** Common name of the leaf: the id of the router, controller or identity. */
  readonly id: string;
  /** Trust anchors as PEM; empty when the configuration gave none. */
  readonly caPem: string;
  readonly leaf: X509Certificate;
  /** See `fingerprint()`. */
  readonly leafFingerprint: string;
  /** The bundle parsed; empty when the configuration gave none. */
  readonly anchors: readonly X509Certificate[];
  /** For dialling: presents `cert`, trusts the bundle (the system's roots when there is none). */
  clientContext(): SecureContext;
  /** For listening: the certificate chosen by the server name the client asked for. */
  serverContext(servername?: string): SecureContext;
  /** What `serverContext()` without a name presents: leaf and chain, and the key. */
  readonly defaultServerCertificate: KeyedPem;
}

/** TLS 1.2 and 1.3 with authenticated ciphers only; AES-128-GCM first because bulk data is cheapest with it. */
export const tlsParameters = {
  minVersion: "TLSv1.2",
  ciphers: [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
  ].join(":"),
} as const;

/**
 * Makes an identity from PEM texts.
 *
 * @throws IdentityError `IDENTITY_INVALID` when a part cannot be read, a key does not fit its certificate, or the leaf
 * has no common name
 */
export function identityFromPem(parts: IdentityPem): Identity {
  const [leaf] = wrap("cert", () => parseCertificates(parts.certPem));
  if (leaf === undefined) throw invalid("cert: expected a certificate");
  const id = commonName(leaf);
  if (id === undefined || id === "") {
    throw invalid("cert: expected a subject with a common name, which is the identity's id");
  }
  const keyPem = wrap("key", () => firstKey(parts.keyPem));
  if (!leaf.checkPrivateKey(readPrivateKey(keyPem))) {
    throw invalid("key: this private key does not belong to the first certificate of cert");
  }
  const caPem = parts.caPem ?? "";
  const anchors = caPem.trim() === "" ? [] : wrap("ca", () => parseCertificates(caPem));
  const server = wrap("server_cert", () => new ServerCertificates(serverEntries(parts, keyPem), tlsParameters));
  let client: SecureContext | undefined;
  return {
    ...parts,
    id,
    keyPem,
    caPem,
    leaf,
    leafFingerprint: fingerprint(leaf),
    anchors,
    clientContext: () => {
      client ??= createSecureContext({
        ...tlsParameters,
        cert: parts.certPem,
        key: keyPem,
        // Every CA of the bundle is an anchor, also one that did not sign itself.
        ...(anchors.length > 0 ? { ca: anchors.map(String), allowPartialTrustChain: true } : {}),
      });
      return client;
    },
    serverContext: (servername) => server.contextFor(servername),
    defaultServerCertificate: server.first,
  };
}

/** A certificate with its chain, leaf first, and its key. */
export interface KeyedPem {
  readonly certPem: string;
  readonly keyPem: string;
}

/**
 * The same identity with further server certificates, which go before its own wherever they cover the name that a client asks for.
 *
 * @param unnamed for clients that name no server; the identity's own when left out
 * @throws IdentityError `IDENTITY_INVALID` when one cannot be read, or its key does not fit
 */
export function withServerCertificates(
  identity: Identity,
  certificates: readonly KeyedPem[],
  unnamed: KeyedPem = identity.defaultServerCertificate,
): Identity {
  const preferred = wrap("server certificates", () => new ServerCertificates(certificates, tlsParameters));
  return {
    ...identity,
    serverContext: (servername) =>
      (servername === undefined ? undefined : preferred.contextCovering(servername)) ??
      identity.serverContext(servername),
    defaultServerCertificate: unnamed,
  };
}

function serverEntries(parts: IdentityPem, keyPem: string): KeyedPem[] {
  const { certPem, serverCertPem, serverKeyPem, altServerCerts = [] } = parts;
  const own: ServerCertificatePem =
    serverCertPem === undefined ? { certPem } : { certPem: serverCertPem, keyPem: serverKeyPem };
  return [own, ...altServerCerts].map((entry) => ({
    certPem: entry.certPem,
    keyPem: firstKey(entry.keyPem ?? keyPem),
  }));
}

function firstKey(pem: string): string {
  const [key] = pemBlocks(pem, (label) => label.endsWith("PRIVATE KEY"));
  if (key === undefined) throw new CertificateError("KEY_UNREADABLE", "expected a private key in PEM");
  readPrivateKey(key);
  return key;
}

/** The keys of an `identity:` section or of `id` in an identity file; the value forms are those of {@link pemSource}. */
export interface IdentityConfig {
  readonly cert: string;
  readonly key: string;
  readonly ca?: string | null | undefined;
  readonly server_cert?: string | null | undefined;
  readonly server_key?: string | null | undefined;
  readonly alt_server_certs?:
    | readonly { readonly server_cert: string; readonly server_key?: string | null | undefined }[]
    | null
    | undefined;
}

/**
 * Reads every part of an identity configuration (docs/protocol/identity.md "Configuration"). Of several that cannot be
 * used it names the first, in the order of {@link IdentityConfig}; values of an unknown form go before missing files.
 *
 * @param baseDir folder that relative paths start from
 * @throws IdentityError
 */
export async function loadIdentity(config: IdentityConfig, baseDir: string): Promise<Identity> {
  const needed = (name: string, value: string) => {
    const source = pemSource(value, baseDir, name);
    return () => readSource(source, name);
  };
  const optional = (name: string, value: string | null | undefined) =>
    value === undefined || value === null || value === "" ? async () => undefined : needed(name, value);
  const cert = needed("cert", config.cert);
  const key = needed("key", config.key);
  const ca = optional("ca", config.ca);
  const serverCert = optional("server_cert", config.server_cert);
  const serverKey = optional("server_key", config.server_key);
  const alternatives = (config.alt_server_certs ?? []).map((entry) => ({
    cert: needed("alt_server_certs.server_cert", entry.server_cert),
    key: optional("alt_server_certs.server_key", entry.server_key),
  }));
  const [certPem, keyPem, caPem] = [await cert(), await key(), await ca()];
  const [serverCertPem, serverKeyPem] = [await serverCert(), await serverKey()];
  const altServerCerts: ServerCertificatePem[] = [];
  for (const alternative of alternatives) {
    const [certPem, keyPem] = [await alternative.cert(), await alternative.key()];
    altServerCerts.push({ certPem, keyPem });
  }
  return identityFromPem({ certPem, keyPem, altServerCerts, caPem, serverCertPem, serverKeyPem });
}

/** Where a configuration value keeps its PEM text. */
export type PemSource =
  | { readonly kind: "inline"; readonly pem: string }
  | { readonly kind: "file"; readonly path: string };

/**
 * Understands one value of an identity configuration: PEM text with or without `pem:` in front, a path, or a path
 * behind `file:` or `file://`.
 *
 * @throws IdentityError `IDENTITY_INVALID` for other schemes, such as hardware keys
 */
export function pemSource(value: string, baseDir: string, name = "value"): PemSource {
  if (value.startsWith("pem:")) return { kind: "inline", pem: value.slice("pem:".length) };
  if (value.trimStart().startsWith("-----BEGIN")) return { kind: "inline", pem: value };
  const path = pathOf(value, name);
  return { kind: "file", path: isAbsolute(path) ? path : resolve(baseDir, path) };
}

function pathOf(value: string, name: string): string {
  if (value.startsWith("file:///")) return fileURLToPath(value);
  if (value.startsWith("file://")) return value.slice("file://".length);
  if (value.startsWith("file:")) return value.slice("file:".length);
  const scheme = /^([a-z][a-z0-9+.-]+):/.exec(value)?.[1];
  if (scheme !== undefined) {
    throw invalid(`${name}: expected PEM text, a path or file:, got the scheme ${scheme}:, which is not supported`);
  }
  return value;
}

/** @throws IdentityError `IDENTITY_UNREADABLE` when the file cannot be read */
async function readSource(source: PemSource, name: string): Promise<string> {
  if (source.kind === "inline") return source.pem;
  try {
    return await readFile(source.path, "utf8");
  } catch (cause) {
    const reason = errorText(cause);
    throw new IdentityError("IDENTITY_UNREADABLE", `${name}: cannot read ${source.path}: ${reason}`, { cause });
  }
}

function wrap<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (cause instanceof IdentityError) throw cause;
    throw invalid(`${name}: ${errorText(cause)}`, { cause });
  }
}

function invalid(text: string, options?: ErrorOptions): IdentityError {
  return new IdentityError("IDENTITY_INVALID", text, options);
}
