import { randomBytes } from "node:crypto";
import { createKeyPair, signingKeys } from "../identity/certificate-request.ts";
import { type Identity, identityFromPem } from "../identity/identity.ts";
import { x509 } from "../identity/x509.ts";

/** What a test wants certified. */
export interface TestCertificate {
  readonly commonName?: string;
  readonly dns?: readonly string[];
  readonly ip?: readonly string[];
  readonly uri?: readonly string[];
  /** Makes it an authority; a number limits how many authorities may follow. */
  readonly ca?: boolean | number;
  readonly notBefore?: Date;
  readonly notAfter?: Date;
}

/** A certificate authority for tests: real certificates, made on the spot. */
export class TestAuthority {
  readonly certPem: string;
  readonly keyPem: string;

  private constructor(certPem: string, keyPem: string) {
    this.certPem = certPem;
    this.keyPem = keyPem;
  }

  /** An authority signed by `parent`, or by itself; `uri`: its URI names. */
  static async create(
    commonName = "Test Root",
    parent?: TestAuthority,
    ca: boolean | number = true,
    uri: readonly string[] = [],
  ): Promise<TestAuthority> {
    const { keyPem } = await createKeyPair("P-256");
    const certPem = await issue({ commonName, ca, uri }, keyPem, parent);
    return new TestAuthority(certPem, keyPem);
  }

  /** A certificate of another authority from this one: the same name and key once more. */
  async certify(commonName: string, keyPem: string, ca: boolean | number = true): Promise<string> {
    return issue({ commonName, ca }, keyPem, this);
  }

  /** A new key with a certificate from this authority. */
  async issue(what: TestCertificate): Promise<{ certPem: string; keyPem: string }> {
    const { keyPem } = await createKeyPair("P-256");
    return { keyPem, certPem: await issue(what, keyPem, this) };
  }

  /** An identity that listens on the loopback names and trusts this authority. */
  async identity(commonName: string, what: TestCertificate = {}): Promise<Identity> {
    const { certPem, keyPem } = await this.issue({ dns: ["localhost"], ip: ["127.0.0.1"], ...what, commonName });
    return identityFromPem({ certPem, keyPem, caPem: this.certPem });
  }
}

async function issue(what: TestCertificate, keyPem: string, parent?: TestAuthority): Promise<string> {
  const own = await signingKeys(keyPem);
  const signer = parent === undefined ? own : await signingKeys(parent.keyPem);
  const subject = what.commonName === undefined ? [{ O: ["Test"] }] : [{ CN: [what.commonName] }];
  const names: x509.JsonGeneralNames = [
    ...(what.dns ?? []).map((value) => ({ type: "dns" as const, value })),
    ...(what.ip ?? []).map((value) => ({ type: "ip" as const, value })),
    ...(what.uri ?? []).map((value) => ({ type: "url" as const, value })),
  ];
  const isCa = what.ca !== undefined && what.ca !== false;
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: `00${randomBytes(15).toString("hex")}`,
    subject: new x509.Name(subject).toString(),
    issuer: parent === undefined ? new x509.Name(subject).toString() : new x509.X509Certificate(parent.certPem).subject,
    notBefore: what.notBefore ?? new Date(Date.now() - 60_000),
    notAfter: what.notAfter ?? new Date(Date.now() + 86_400_000),
    publicKey: own.pair.publicKey,
    signingKey: signer.pair.privateKey,
    signingAlgorithm: signer.algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(isCa, typeof what.ca === "number" ? what.ca : undefined, true),
      new x509.KeyUsagesExtension(isCa ? x509.KeyUsageFlags.keyCertSign : x509.KeyUsageFlags.digitalSignature, true),
      ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension(names)] : []),
    ],
  });
  return `${certificate.toString("pem")}\n`;
}
