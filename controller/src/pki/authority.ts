import { randomBytes, X509Certificate } from "node:crypto";
import { createKeyPair, readPrivateKey, signingKeys, splitPem, x509 } from "@sallyport/wire";
import {
  authorityExtensions,
  CLOCK_TOLERANCE_MS,
  issue,
  type KeyedCertificate,
  type Lifetimes,
  leafOf,
  PkiError,
} from "./issue.ts";

/** The root: its key may lie elsewhere; then it signs nothing more for this network. */
export interface RootCertificate {
  readonly certPem: string;
  readonly keyPem?: string;
}

/** The signers of a network: the root that peers trust, and the intermediate whose key is in use. */
interface SigningAuthority {
  readonly root: RootCertificate;
  /** Its own certificate first, then what stands between it and the root. */
  readonly intermediate: KeyedCertificate;
}

interface Making {
  readonly lifetimes: Lifetimes;
  readonly now: Date;
  /** SPIFFE id of the network's trust domain. */
  readonly trustDomain: string;
}

/** Makes a new root and intermediate, EC P-256. Their names are unique: a verifier never takes one generation for another. */
export async function createAuthority(making: Making): Promise<SigningAuthority> {
  const mark = randomBytes(4).toString("hex");
  const root = await createCa(making, {
    name: `Sallyport root CA ${mark}`,
    lifetimeMs: making.lifetimes.root,
    below: 1,
  });
  return { root, intermediate: await createIntermediate(making, root, mark) };
}

function createIntermediate(making: Making, root: KeyedCertificate, mark: string): Promise<KeyedCertificate> {
  const lifetimeMs = making.lifetimes.intermediate;
  return createCa(making, { name: `Sallyport signing CA ${mark}`, lifetimeMs, below: 0 }, root);
}

/** A CA with a new key, of `issuer` or signed by itself; `below`: how many CAs there may be between it and a leaf. */
async function createCa(
  making: Making,
  ca: { readonly name: string; readonly lifetimeMs: number; readonly below: number },
  issuer?: KeyedCertificate,
): Promise<KeyedCertificate> {
  const { keyPem } = await createKeyPair();
  const { pair } = await signingKeys(keyPem);
  const issued = await issue(
    {
      subject: `CN=${ca.name}, O=Sallyport`,
      publicKey: pair.publicKey,
      notBefore: beginning(making.now),
      lifetimeMs: ca.lifetimeMs,
      extensions: authorityExtensions(making.trustDomain, ca.below),
    },
    issuer ?? { ownKeyPem: keyPem },
  );
  return { certPem: issued.leafPem, keyPem };
}

/**
 * Takes an authority of the operator's own: a root with its key, below which an intermediate is made; or an intermediate with its key,
 * followed by the certificates up to the root, whose key stays where it is.
 *
 * @throws PkiError naming what does not fit
 */
export async function importAuthority(making: Making, imported: KeyedCertificate): Promise<SigningAuthority> {
  const chain = splitPem(imported.certPem);
  const [own] = chain;
  if (own === undefined) throw new PkiError("the imported CA: expected certificates in PEM, found none");
  const certificates = chain.map((pem, place) => readAuthority(pem, place, making.now));
  const [certificate] = certificates;
  if (certificate === undefined) throw new PkiError("the imported CA: expected certificates in PEM, found none");
  if (!certificate.checkPrivateKey(readPrivateKey(imported.keyPem))) {
    throw new PkiError("the imported CA: the key does not belong to the first certificate");
  }
  if (isSelfSigned(certificate)) {
    if (pathLengthOf(own) === 0) {
      throw new PkiError("the imported root allows no CA below it (path length 0): import it with its intermediate");
    }
    const root = { certPem: own, keyPem: imported.keyPem };
    return { root, intermediate: await createIntermediate(making, root, randomBytes(4).toString("hex")) };
  }
  for (const [place, lower] of certificates.entries()) {
    const upper = certificates[place + 1];
    if (upper === undefined) break;
    if (!lower.checkIssued(upper) || !lower.verify(upper.publicKey)) {
      throw new PkiError(`the imported CA: certificate ${place + 2} did not issue certificate ${place + 1}`);
    }
  }
  const last = certificates.at(-1);
  const rootPem = chain.at(-1);
  if (last === undefined || rootPem === undefined || !isSelfSigned(last)) {
    throw new PkiError("the imported CA: the chain must end with its root, which signed itself");
  }
  return {
    root: { certPem: rootPem },
    intermediate: { certPem: chain.slice(0, -1).join(""), keyPem: imported.keyPem },
  };
}

/** A new certificate of the intermediate, signed by the root or by another one: same name, key and key id. */
export async function crossSign(by: KeyedCertificate, intermediate: KeyedCertificate, making: Making): Promise<string> {
  const own = new x509.X509Certificate(leafOf(intermediate.certPem));
  const { pair } = await signingKeys(intermediate.keyPem);
  const keyId = own.getExtension(x509.SubjectKeyIdentifierExtension)?.keyId;
  const issued = await issue(
    {
      subject: own.subjectName,
      publicKey: pair.publicKey,
      notBefore: beginning(making.now),
      lifetimeMs: making.lifetimes.intermediate,
      extensions: authorityExtensions(making.trustDomain, 0),
      ...(keyId && { subjectKeyId: keyId }),
    },
    by,
  );
  return issued.leafPem;
}

function readAuthority(pem: string, place: number, now: Date): X509Certificate {
  const what = `the imported CA: certificate ${place + 1}`;
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(pem);
  } catch (cause) {
    throw new PkiError(`${what} cannot be read`, { cause });
  }
  if (!certificate.ca) throw new PkiError(`${what} is not that of a CA (basic constraints)`);
  if (certificate.validFromDate > now || certificate.validToDate < now) {
    throw new PkiError(`${what} is valid from ${certificate.validFrom} to ${certificate.validTo}, which is not now`);
  }
  return certificate;
}

function isSelfSigned(certificate: X509Certificate): boolean {
  return certificate.checkIssued(certificate) && certificate.verify(certificate.publicKey);
}

function pathLengthOf(pem: string): number | undefined {
  return new x509.X509Certificate(pem).getExtension(x509.BasicConstraintsExtension)?.pathLength;
}

function beginning(now: Date): Date {
  return new Date(now.getTime() - CLOCK_TOLERANCE_MS);
}
