import { X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { getCACertificates } from "node:tls";
import { covers, type KeyedPem, nameParts, parseCertificates, pemBlocks, readPrivateKey } from "@sallyport/wire";

/** A certificate of the operator's, with which the API is served under the names in it. */
export interface OperatorCertificate extends KeyedPem {
  readonly leaf: X509Certificate;
  /** Its DNS names and addresses, as they stand in it. */
  readonly names: readonly string[];
  /** The CAs above it as far as they are known, PEM; of one that signed itself, itself. */
  readonly authorities: readonly string[];
  covers(host: string): boolean;
}

/** The files of a pair. */
export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

/** A pair of files that cannot be served with. */
export class OperatorCertificateError extends Error {
  override name = "OperatorCertificateError";
  /** Which of the two. */
  readonly part: keyof CertificateFiles;
  readonly expected: string;
  readonly found: string;

  constructor(part: keyof CertificateFiles, expected: string, found: string) {
    super(`expected ${expected}, found ${found}`);
    this.part = part;
    this.expected = expected;
    this.found = found;
  }
}

const CERT = "a file with a certificate and its chain in PEM";
const KEY = "a file with a private key in PEM, not encrypted";
const SERVER_AUTH = "1.3.6.1.5.5.7.3.1";
const CURVES = ["prime256v1", "secp384r1", "secp521r1"];

/**
 * Reads a pair and checks everything that clients would stumble over (docs/controller/pki.md, "A certificate of a public authority").
 * @throws OperatorCertificateError
 */
export async function readOperatorCertificate(files: CertificateFiles, now: Date): Promise<OperatorCertificate> {
  const read = async (part: keyof CertificateFiles, expected: string) => {
    try {
      return await readFile(files[part], "utf8");
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException;
      throw new OperatorCertificateError(part, expected, `${files[part]}, which cannot be read: ${code ?? message}`);
    }
  };
  const certPem = await read("cert", CERT);
  const [leaf, ...others] = certificatesOf(certPem, files.cert);
  if (leaf === undefined) throw new OperatorCertificateError("cert", CERT, `none in ${files.cert}`);
  const keyPem = keyOf(await read("key", KEY), files.key, leaf);
  const names = namesOf(leaf);
  if (names.length === 0) {
    throw new OperatorCertificateError(
      "cert",
      "a certificate with the names it is served under (subjectAltName: DNS names or addresses)",
      `none in that of ${nameOf(leaf)}`,
    );
  }
  if (leaf.keyUsage?.length && !leaf.keyUsage.includes(SERVER_AUTH)) {
    throw new OperatorCertificateError("cert", "a certificate for servers", `one of ${nameOf(leaf)} for other uses`);
  }
  if (now < leaf.validFromDate || leaf.validToDate < now) {
    throw new OperatorCertificateError(
      "cert",
      `a certificate that is valid now, ${now.toISOString()}`,
      `one of ${nameOf(leaf)} from ${leaf.validFromDate.toISOString()} to ${leaf.validToDate.toISOString()}`,
    );
  }
  const authorities = authoritiesOf(leaf, others);
  if (authorities.length === 0) {
    throw new OperatorCertificateError(
      "cert",
      `behind the certificate that of its issuer (${nameParts(leaf.issuer).join(", ") || "which has no name"}), which enrolling clients are told to trust`,
      `none in ${files.cert}`,
    );
  }
  // Only what belongs to the pair: a chain that is out of order, or holds more, is nothing that clients should see.
  const chain = [leaf, ...authorities.filter((pem) => others.some((other) => String(other) === pem))];
  return {
    certPem: chain.map(String).join(""),
    keyPem,
    leaf,
    names,
    authorities,
    covers: (host) => covers(leaf, host),
  };
}

function certificatesOf(pem: string, file: string): X509Certificate[] {
  try {
    return parseCertificates(pem);
  } catch {
    throw new OperatorCertificateError("cert", CERT, `no readable certificate in ${file}`);
  }
}

function keyOf(pem: string, file: string, leaf: X509Certificate): string {
  const [keyPem] = pemBlocks(pem, (label) => label.endsWith("PRIVATE KEY"));
  let key: ReturnType<typeof readPrivateKey>;
  try {
    key = readPrivateKey(keyPem ?? "");
  } catch {
    throw new OperatorCertificateError("key", KEY, `no readable one in ${file}`);
  }
  const kind = key.asymmetricKeyType ?? "unknown";
  const { namedCurve } = key.asymmetricKeyDetails ?? {};
  if (kind !== "rsa" && !CURVES.includes(namedCurve ?? "")) {
    const found = namedCurve === undefined ? kind : `${kind} on ${namedCurve}`;
    throw new OperatorCertificateError("key", "an RSA key, or an EC key on P-256, P-384 or P-521", found);
  }
  if (!leaf.checkPrivateKey(key)) {
    throw new OperatorCertificateError(
      "key",
      `the private key of the first certificate in the file beside it (${nameOf(leaf)})`,
      `another one in ${file}`,
    );
  }
  return keyPem ?? "";
}

function namesOf({ subjectAltName = "" }: X509Certificate): string[] {
  return [...subjectAltName.matchAll(/(?:^|, )(?:DNS|IP Address):("(?:[^"\\]|\\.)*"|[^,]*)/g)].map(
    ([, value = ""]) => value,
  );
}

function nameOf(leaf: X509Certificate): string {
  return nameParts(leaf.subject).join(", ") || (leaf.subjectAltName ?? "an unnamed subject");
}

/** Upwards from the leaf: what stands in the file, and the root if it is one that the system knows, since files leave it out. */
function authoritiesOf(leaf: X509Certificate, others: readonly X509Certificate[]): string[] {
  const found: X509Certificate[] = [];
  let child = leaf;
  while (!isIssuedBy(child, child)) {
    const isNew = (candidate: X509Certificate) => !found.includes(candidate) && isIssuedBy(child, candidate);
    const issuer = others.find(isNew) ?? knownRoot(child);
    if (issuer === undefined) break;
    found.push(issuer);
    child = issuer;
  }
  return (child === leaf && isIssuedBy(leaf, leaf) ? [leaf] : found).map(String);
}

function isIssuedBy(child: X509Certificate, issuer: X509Certificate): boolean {
  if (child !== issuer && !issuer.ca) return false;
  try {
    return child.checkIssued(issuer) && child.verify(issuer.publicKey);
  } catch {
    // A key of a kind that this machine cannot use proves nothing.
    return false;
  }
}

function knownRoot(child: X509Certificate): X509Certificate | undefined {
  for (const pem of getCACertificates("default")) {
    const root = new X509Certificate(pem);
    if (root.subject === child.issuer && isIssuedBy(child, root)) return root;
  }
  return undefined;
}
