/** A third-party certificate authority, for tests: real keys and certificates, of the kinds that companies have. */
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { signingKeys, x509 } from "@sallyport/wire";

export type KeyKind = "ec" | "rsa";

export interface Leaf {
  readonly commonName: string;
  readonly emails?: readonly string[];
  readonly uris?: readonly string[];
  readonly dns?: readonly string[];
  readonly ips?: readonly string[];
  /** Extended key usages by OID; none at all when absent. */
  readonly usages?: readonly string[];
  readonly key?: KeyKind;
  readonly validMs?: number;
}

export interface Keyed {
  readonly certPem: string;
  readonly keyPem: string;
}

export class ThirdParty implements Keyed {
  readonly certPem: string;
  readonly keyPem: string;

  private constructor({ certPem, keyPem }: Keyed) {
    this.certPem = certPem;
    this.keyPem = keyPem;
  }

  /** An authority signed by `parent`, else by itself. */
  static async create(commonName: string, options: { parent?: ThirdParty; key?: KeyKind } = {}): Promise<ThirdParty> {
    const keyPem = newKey(options.key);
    const extensions = [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
    ];
    return new ThirdParty(await sign({ commonName, keyPem, extensions, validMs: 86_400_000 }, options.parent));
  }

  async issue(leaf: Leaf): Promise<Keyed> {
    const names: x509.JsonGeneralNames = [
      ...(leaf.emails ?? []).map((value) => ({ type: "email" as const, value })),
      ...(leaf.uris ?? []).map((value) => ({ type: "url" as const, value })),
      ...(leaf.dns ?? []).map((value) => ({ type: "dns" as const, value })),
      ...(leaf.ips ?? []).map((value) => ({ type: "ip" as const, value })),
    ];
    const extensions = [
      new x509.BasicConstraintsExtension(false, undefined, true),
      ...(leaf.usages === undefined ? [] : [new x509.ExtendedKeyUsageExtension([...leaf.usages])]),
      ...(names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension(names)]),
    ];
    const keyPem = newKey(leaf.key);
    return sign({ commonName: leaf.commonName, keyPem, extensions, validMs: leaf.validMs ?? 3_600_000 }, this);
  }
}

function newKey(kind: KeyKind = "ec"): string {
  const { privateKey } =
    kind === "rsa"
      ? generateKeyPairSync("rsa", { modulusLength: 2048 })
      : generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  return String(privateKey.export({ type: "pkcs8", format: "pem" }));
}

async function sign(
  what: { commonName: string; keyPem: string; extensions: x509.Extension[]; validMs: number },
  parent: Keyed | undefined,
): Promise<Keyed> {
  const own = await signingKeys(what.keyPem);
  const signer = parent === undefined ? own : await signingKeys(parent.keyPem);
  const subject = new x509.Name([{ CN: [what.commonName] }]);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: `00${randomBytes(15).toString("hex")}`,
    subject,
    issuer: parent === undefined ? subject : new x509.X509Certificate(parent.certPem).subjectName,
    notBefore: new Date(Date.now() - 60_000),
    notAfter: new Date(Date.now() + what.validMs),
    publicKey: own.pair.publicKey,
    signingKey: signer.pair.privateKey,
    signingAlgorithm: signer.algorithm,
    extensions: what.extensions,
  });
  return { certPem: `${certificate.toString("pem")}\n`, keyPem: what.keyPem };
}
