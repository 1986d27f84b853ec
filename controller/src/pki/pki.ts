import { randomBytes, X509Certificate } from "node:crypto";
import { createKeyPair, type Identity, identityFromPem, signingKeys, splitPem, x509 } from "@sallyport/wire";
import { type Csr, readCsr } from "./csr.ts";
import { CsrError, PkiError } from "./errors.ts";
import { authorityExtensions, hostNames, isAddress, leafExtensions } from "./extensions.ts";
import { CLOCK_TOLERANCE_MS, describe, type IssuedCertificate, issue, type KeyedCertificate, leafOf } from "./issue.ts";
import { JwtSigner } from "./jwt.ts";

/** How long certificates live, in milliseconds. */
export interface Lifetimes {
  readonly root: number;
  readonly intermediate: number;
  readonly controller: number;
  readonly router: number;
  readonly identity: number;
  readonly session: number;
}

const DAY = 86_400_000;

export const DEFAULT_LIFETIMES: Lifetimes = {
  root: 7305 * DAY,
  intermediate: 3652 * DAY,
  controller: 365 * DAY,
  router: 365 * DAY,
  identity: 365 * DAY,
  session: DAY / 2,
};

/** Everything of the network's PKI that must be kept, keys included. */
export interface PkiMaterial {
  readonly root: KeyedCertificate;
  /** Signs what the network issues. */
  readonly intermediate: KeyedCertificate;
  /** What the controller presents as a client; its common name is the controller's id. */
  readonly controller: KeyedCertificate;
  /** What the API and the control channel are served with; its key signs tokens. */
  readonly server: KeyedCertificate;
}

export interface PkiRequest {
  /** Id of the controller: routers key sessions and circuits by it, so it must never change. */
  readonly controllerId: string;
  /** Host names and IP addresses under which it is reached. */
  readonly hosts: readonly string[];
  readonly lifetimes?: Lifetimes;
  readonly now?: Date;
}

/** Makes a new network's keys and certificates: root, intermediate, the controller's two. All EC P-256. */
export async function createPkiMaterial(request: PkiRequest): Promise<PkiMaterial> {
  const { lifetimes = DEFAULT_LIFETIMES, now = new Date() } = request;
  const spiffe = `spiffe://sallyport-${randomBytes(8).toString("hex")}`;
  const notBefore = new Date(now.getTime() - CLOCK_TOLERANCE_MS);
  const authority = async (
    name: string,
    below: number,
    lifetimeMs: number,
    parent?: KeyedCertificate,
  ): Promise<KeyedCertificate> => {
    const { keyPem } = await createKeyPair();
    const { pair } = await signingKeys(keyPem);
    const issued = await issue(
      {
        subject: `CN=${name}, O=Sallyport`,
        publicKey: pair.publicKey,
        notBefore,
        lifetimeMs,
        extensions: authorityExtensions(spiffe, below),
      },
      parent ?? { ownKeyPem: keyPem },
    );
    return { certPem: issued.leafPem, keyPem };
  };
  const root = await authority("Sallyport root CA", 1, lifetimes.root);
  const intermediate = await authority("Sallyport signing CA", 0, lifetimes.intermediate, root);
  const id = request.controllerId;
  const own = { now, lifetimeMs: lifetimes.controller, intermediate };
  const controller = await issueOwn(
    own,
    id,
    (await createKeyPair()).keyPem,
    ["client"],
    [{ type: "url", value: `${spiffe}/controller/${id}` }],
  );
  const server = await issueOwn(
    own,
    id,
    (await createKeyPair()).keyPem,
    ["server"],
    [...hostNames(request.hosts), { type: "url", value: `${spiffe}/controller/${id}` }],
  );
  return { root, intermediate, controller, server };
}

async function issueOwn(
  by: { now: Date; lifetimeMs: number; intermediate: KeyedCertificate },
  commonName: string,
  keyPem: string,
  purposes: readonly ("client" | "server")[],
  names: readonly x509.JsonGeneralName[],
): Promise<KeyedCertificate> {
  const { pair } = await signingKeys(keyPem);
  const notBefore = new Date(by.now.getTime() - CLOCK_TOLERANCE_MS);
  const subject = new x509.Name([{ O: ["Sallyport"] }, { CN: [commonName] }]);
  const extensions = leafExtensions(purposes, names);
  const issued = await issue(
    { subject, publicKey: pair.publicKey, notBefore, lifetimeMs: by.lifetimeMs, extensions },
    by.intermediate,
  );
  return { certPem: issued.pem, keyPem };
}

/** Remaining life at which a certificate is renewed: 7 days, or a third of its life if that is less. */
export function isDueForRenewal(certificate: X509Certificate, now: Date): boolean {
  const life = certificate.validToDate.getTime() - certificate.validFromDate.getTime();
  return certificate.validToDate.getTime() - now.getTime() < Math.min(7 * DAY, life / 3);
}

/**
 * The network's certificate authority, and the controller's own identity.
 *
 * Issued certificates start a minute ago, have 128-bit serial numbers, and take subject and public key from the request; see docs/protocol/pki.md.
 */
export class Pki {
  readonly #lifetimes: Lifetimes;
  readonly #now: () => Date;
  #material: PkiMaterial;
  #jwt: JwtSigner;
  #serverIdentity: Identity;
  #trustAnchors: readonly X509Certificate[];
  #spiffe: string;

  constructor(material: PkiMaterial, options: { lifetimes?: Lifetimes; now?: () => Date } = {}) {
    this.#lifetimes = options.lifetimes ?? DEFAULT_LIFETIMES;
    this.#now = options.now ?? (() => new Date());
    this.#material = material;
    this.#jwt = new JwtSigner(material.server);
    this.#trustAnchors = [material.root, material.intermediate].map(
      ({ certPem }) => new X509Certificate(leafOf(certPem)),
    );
    this.#serverIdentity = this.#makeIdentity();
    this.#spiffe = trustDomainOf(material.root);
  }

  /** Common name of the controller's certificate. */
  get controllerId(): string {
    return this.#serverIdentity.id;
  }

  /** What the controller listens and dials with. A renewal replaces it. */
  get serverIdentity(): Identity {
    return this.#serverIdentity;
  }

  /** Root and intermediate: each alone is enough to trust a certificate of this network. */
  get trustAnchors(): readonly X509Certificate[] {
    return this.#trustAnchors;
  }

  /** Root and intermediate, PEM. */
  get caBundlePem(): string {
    return leafOf(this.#material.root.certPem) + leafOf(this.#material.intermediate.certPem);
  }

  /** The bundle as a PKCS#7 SignedData that holds certificates only: base64, lines of 64 characters, no line feed at the end. */
  caBundlePkcs7Base64(): string {
    const certificates = splitPem(this.caBundlePem).map((pem) => new x509.X509Certificate(pem));
    return Buffer.from(new x509.X509Certificates(certificates).export("raw"))
      .toString("base64")
      .replace(/.{64}(?=.)/g, "$&\n");
  }

  /** For an identity: subject and key of the request; of alternative names none, or those of the certificate that it follows. */
  async issueIdentityCertificate(csrPem: string, predecessor?: X509Certificate): Promise<IssuedCertificate> {
    const names = predecessor === undefined ? [] : alternativeNames(predecessor);
    return this.#issue(await readCsr(csrPem), ["client"], names, this.#lifetimes.identity);
  }

  /**
   * For a router: two certificates with the names that were asked for, but SPIFFE ids.
   * @throws CsrError; `EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID` when the common name of one of the requests is not the router's id
   */
  async issueRouterCertificates(request: {
    readonly routerId: string;
    readonly certCsr: string;
    readonly serverCertCsr: string;
  }): Promise<{ readonly client: IssuedCertificate; readonly server: IssuedCertificate }> {
    for (const csr of [request.certCsr, request.serverCertCsr]) {
      if (csr?.trim()) continue;
      throw new CsrError(
        "MISSING_OR_INVALID_CSR",
        "a router must send both a client CSR (certCsr) and a server CSR (serverCertCsr)",
      );
    }
    const client = await readCsr(request.certCsr, "the client CSR");
    const server = await readCsr(request.serverCertCsr, "the server CSR");
    // Other routers know a listener by the name in its server certificate, so that one must not be free to choose either.
    for (const [what, { commonName }] of Object.entries({ client, server })) {
      if (commonName === request.routerId) continue;
      throw new CsrError(
        "EDGE_ROUTER_ENROLL_COMMON_NAME_INVALID",
        `the ${what} CSR must have one common name, the router's id ${request.routerId}, found ${commonName ?? "none or several"}`,
      );
    }
    return {
      client: await this.#issue(client, ["client"], client.names, this.#lifetimes.router),
      server: await this.#issue(server, ["server"], server.names, this.#lifetimes.router),
    };
  }

  /** For an API session: its SPIFFE id is the only alternative name. */
  async issueSessionCertificate(
    csrPem: string,
    session: { readonly identityId: string; readonly apiSessionId: string; readonly certificateId: string },
  ): Promise<IssuedCertificate> {
    const { identityId, apiSessionId, certificateId } = session;
    const value = `${this.#spiffe}/identity/${identityId}/apiSession/${apiSessionId}/apiSessionCertificate/${certificateId}`;
    const csr = await readCsr(csrPem);
    return this.#issue(csr, ["client"], [{ type: "url", value }], this.#lifetimes.session, this.#now());
  }

  /** Fingerprint of the certificate whose key signs tokens now. */
  get jwtSigner(): string {
    return this.#jwt.kid;
  }

  /** A compact JWT signed with the key of the certificate that the API is served with, so that who has that certificate can check it. */
  signJwt(claims: Readonly<Record<string, unknown>>): string {
    return this.#jwt.sign(claims);
  }

  /**
   * Renews what is due, keys kept: intermediate, and the controller's certificates, these also when `hosts` are not all covered.
   * @returns the new material to be stored, or undefined when nothing was due.
   */
  async renew(hosts: readonly string[]): Promise<PkiMaterial | undefined> {
    const now = this.#now();
    const due = ({ certPem }: KeyedCertificate) => isDueForRenewal(new X509Certificate(leafOf(certPem)), now);
    let { intermediate, controller, server } = this.#material;
    const { root } = this.#material;
    const serverLeaf = new X509Certificate(leafOf(server.certPem));
    const uncovered = hosts.filter((host) => !covered(serverLeaf, host));
    if (due(intermediate)) intermediate = await this.#renewIntermediate(now);
    const authorityChanged = intermediate !== this.#material.intermediate;
    const own = { now, lifetimeMs: this.#lifetimes.controller, intermediate };
    const id = this.controllerId;
    const uri: x509.JsonGeneralName = { type: "url", value: `${this.#spiffe}/controller/${id}` };
    if (authorityChanged || due(controller)) controller = await issueOwn(own, id, controller.keyPem, ["client"], [uri]);
    if (authorityChanged || due(server) || uncovered.length > 0) {
      const names = [...hostNames([...hosts, ...namesOf(serverLeaf)]), uri];
      server = await issueOwn(own, id, server.keyPem, ["server"], names);
    }
    if (controller === this.#material.controller && server === this.#material.server) return undefined;
    this.#material = { root, intermediate, controller, server };
    this.#jwt = new JwtSigner(server);
    this.#trustAnchors = [root, intermediate].map(({ certPem }) => new X509Certificate(leafOf(certPem)));
    this.#serverIdentity = this.#makeIdentity();
    return this.#material;
  }

  async #renewIntermediate(now: Date): Promise<KeyedCertificate> {
    const { root, intermediate } = this.#material;
    const { pair } = await signingKeys(intermediate.keyPem);
    const issued = await issue(
      {
        subject: new x509.X509Certificate(leafOf(intermediate.certPem)).subjectName,
        publicKey: pair.publicKey,
        notBefore: new Date(now.getTime() - CLOCK_TOLERANCE_MS),
        lifetimeMs: this.#lifetimes.intermediate,
        extensions: authorityExtensions(this.#spiffe, 0),
      },
      root,
    );
    return { certPem: issued.leafPem, keyPem: intermediate.keyPem };
  }

  #issue(
    csr: Csr,
    purposes: readonly ("client" | "server")[],
    names: readonly (x509.GeneralName | x509.JsonGeneralName)[],
    lifetimeMs: number,
    notBefore = new Date(this.#now().getTime() - CLOCK_TOLERANCE_MS),
  ): Promise<IssuedCertificate> {
    const plain = names.map(({ type, value }) => ({ type, value }) as x509.JsonGeneralName);
    const extensions = leafExtensions(purposes, plain);
    return issue(
      { subject: csr.subject, publicKey: csr.publicKey, notBefore, lifetimeMs, extensions },
      this.#material.intermediate,
    );
  }

  #makeIdentity(): Identity {
    const { controller, server } = this.#material;
    return identityFromPem({
      certPem: controller.certPem,
      keyPem: controller.keyPem,
      serverCertPem: server.certPem,
      serverKeyPem: server.keyPem,
      caPem: this.caBundlePem,
    });
  }
}

function covered(certificate: X509Certificate, host: string): boolean {
  return (isAddress(host) ? certificate.checkIP(host) : certificate.checkHost(host)) !== undefined;
}

function alternativeNames(certificate: X509Certificate): readonly x509.GeneralName[] {
  return (
    new x509.X509Certificate(certificate.raw).getExtension(x509.SubjectAlternativeNameExtension)?.names.items ?? []
  );
}

function namesOf(certificate: X509Certificate): string[] {
  return alternativeNames(certificate)
    .filter(({ type }) => type === "dns" || type === "ip")
    .map(({ value }) => value);
}

function trustDomainOf(root: KeyedCertificate): string {
  const names = new x509.X509Certificate(leafOf(root.certPem)).getExtension(x509.SubjectAlternativeNameExtension)?.names
    .items;
  const id = names?.find(({ type, value }) => type === "url" && value.startsWith("spiffe://"))?.value;
  return id ?? `spiffe://${describe(leafOf(root.certPem), "").fingerprint}`;
}

/** Parses and checks stored material: each key fits its certificate. @throws PkiError naming the part. */
export function checkMaterial(material: PkiMaterial): PkiMaterial {
  for (const part of ["root", "intermediate", "controller", "server"] as const) {
    const { certPem, keyPem } = material[part] ?? {};
    try {
      identityFromPem({ certPem, keyPem });
    } catch (cause) {
      throw new PkiError(`the stored ${part} certificate cannot be used: ${(cause as Error).message}`, { cause });
    }
  }
  return material;
}
