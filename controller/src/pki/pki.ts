import { X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import {
  type Identity,
  identityFromPem,
  type KeyedPem,
  signingKeys,
  splitPem,
  withServerCertificates,
  x509,
} from "@sallyport/wire";
import { type Csr, isSpiffe, readCsr } from "./csr.ts";
import {
  CLOCK_TOLERANCE_MS,
  CsrError,
  type IssuedCertificate,
  issue,
  type KeyedCertificate,
  type Lifetimes,
  leafExtensions,
  leafOf,
  PkiError,
  tokenKeyExtensions,
} from "./issue.ts";
import { JwtSigner } from "./jwt-signer.ts";
import {
  alternativeNames,
  anchorsOf,
  covers,
  hostsOf,
  issuerOf,
  keyTypeOf,
  newKeyPair,
  type PkiMaterial,
  renew,
  trustDomainOf,
} from "./material.ts";
import { chained, type ReplicaMaterial } from "./replica-material.ts";
import { reservedHostOf, reservedHosts } from "./reserved-names.ts";

/** What the API is served with besides the network's own certificate. */
export interface ApiCertificates {
  /** The certificate that is served under the name in enrollment tokens, if that is not the network's own. */
  readonly signer?: KeyedPem;
  /** CAs that clients of the API have to trust for them, PEM. */
  readonly authorities: readonly string[];
}

/** A process with an id of its own, among several on one database. */
export interface OwnReplica {
  readonly id: string;
  /** Host of the API at which clients reach this process alone. */
  readonly apiHost: string;
}

/**
 * The network's certificate authority, and the controller's own identity.
 *
 * Issued certificates start a minute ago, have 128-bit serial numbers, and take subject and public key from the request; see docs/protocol/pki.md.
 */
export class Pki {
  readonly #lifetimes: Lifetimes;
  readonly #sharedHosts: readonly string[];
  readonly #replica: OwnReplica | undefined;
  readonly #now: () => Date;
  #material: PkiMaterial;
  #replicas: ReadonlyMap<string, ReplicaMaterial> = new Map();
  #api: ApiCertificates = { authorities: [] };
  #parts: Prepared;

  /**
   * @param options `sharedHosts`: hosts of the controller for which routers get certificates, too. `replica`: who this process is, unless it has the id of the
   * network's controller
   */
  constructor(
    material: PkiMaterial,
    options: {
      readonly lifetimes: Lifetimes;
      readonly sharedHosts?: readonly string[];
      readonly replica?: OwnReplica | undefined;
      readonly now?: () => Date;
    },
  ) {
    this.#lifetimes = options.lifetimes;
    this.#sharedHosts = options.sharedHosts ?? [];
    this.#replica = options.replica;
    this.#now = options.now ?? (() => new Date());
    this.#material = material;
    this.#parts = this.#prepare();
  }

  /** Works with other material from now on: what a renewal or a rotation has made. `replicas`: that of every replica by id. */
  adopt(material: PkiMaterial, replicas: ReadonlyMap<string, ReplicaMaterial> = this.#replicas): void {
    this.#parts = this.#prepare(material, replicas);
    this.#material = material;
    this.#replicas = replicas;
  }

  /** Tokens and what clients are told to trust go by these certificates from now on. Their authorities admit no client. */
  serveApiWith(certificates: ApiCertificates): void {
    this.#parts = this.#prepare(this.#material, this.#replicas, certificates);
    this.#api = certificates;
  }

  get material(): PkiMaterial {
    return this.#material;
  }

  get replicas(): ReadonlyMap<string, ReplicaMaterial> {
    return this.#replicas;
  }

  /** Id of this process: routers file its sessions, circuits and links under it. */
  get controllerId(): string {
    return this.#replica?.id ?? this.#parts.networkIdentity.id;
  }

  /** What this process dials with, and what is seen at its own addresses. A renewal replaces it. */
  get serverIdentity(): Identity {
    return this.#parts.serverIdentity;
  }

  /**
   * What the APIs are served with: the network's certificate at the shared address, where every replica shows the same one, because clients that enroll trust
   * that leaf alone; at addresses of this process its own.
   */
  get apiIdentity(): Identity {
    return this.#parts.apiIdentity;
  }

  /** The certificate whose key signs enrollment tokens unless the operator's own does. */
  get networkCertificate(): X509Certificate {
    return this.#parts.networkCertificate;
  }

  /** The hosts of all replicas' own certificates. */
  get replicaHosts(): readonly string[] {
    return [...this.#replicas.values()].flatMap(({ server }) => hostsOf(server));
  }

  /** What a replica is seen with at its own addresses; undefined for an unknown one. */
  certificateOf(replicaId: string): X509Certificate | undefined {
    return this.#parts.certificates.get(replicaId);
  }

  /** Root and intermediate, and during a rotation the former ones: each alone is enough to trust a certificate of this network. */
  get trustAnchors(): readonly X509Certificate[] {
    return this.#parts.trustAnchors;
  }

  /** The trust anchors, PEM. */
  get caBundlePem(): string {
    return this.#parts.caBundlePem;
  }

  /** What clients of the API have to trust: the trust anchors, and the authorities of the certificates that the API is served with. */
  get clientBundlePem(): string {
    return this.#parts.clientBundlePem;
  }

  /** The clients' bundle as a PKCS#7 SignedData that holds certificates only: base64, lines of 64 characters, no line feed at the end. */
  caBundlePkcs7Base64(): string {
    const certificates = splitPem(this.clientBundlePem).map((pem) => new x509.X509Certificate(pem));
    return Buffer.from(new x509.X509Certificates(certificates).export("raw"))
      .toString("base64")
      .replace(/.{64}(?=.)/g, "$&\n");
  }

  /**
   * For an identity: subject and key of the request, no alternative names; when it renews a certificate, that certificate's names without SPIFFE ids and
   * names of the controller.
   */
  async issueIdentityCertificate(csrPem: string, predecessor?: X509Certificate): Promise<IssuedCertificate> {
    const isKept = (name: x509.GeneralName) =>
      !isSpiffe(name) && reservedHostOf(name, this.#parts.reservedHosts) === undefined;
    const names = predecessor === undefined ? [] : alternativeNames(predecessor).filter(isKept);
    return this.#issue(await readCsr(csrPem), ["client"], names, this.#lifetimes.identity);
  }

  /**
   * For a router: two certificates with the names that were asked for, but SPIFFE ids. A name of the controller is refused: with it the router
   * could be taken for the controller.
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
    for (const name of [...client.names, ...server.names]) {
      const host = reservedHostOf(name, this.#parts.reservedHosts);
      if (host === undefined) continue;
      throw new CsrError(
        "COULD_NOT_PROCESS_CSR",
        `the CSR could not be processed: the ${name.type} name ${JSON.stringify(name.value)} is of the controller's host ${host}. ` +
          "Take it out of the router's csr.sans; if routers are reached at this host, too, list it in the controller's edge.enrollment.sharedHosts",
      );
    }
    return {
      client: await this.#issue(client, ["client"], client.names, this.#lifetimes.router),
      server: await this.#issue(server, ["server"], server.names, this.#lifetimes.router),
    };
  }

  /** The controller's host that a certificate is good for, though routers get none for it; `undefined` when there is none. */
  reservedHostIn(certificate: X509Certificate): string | undefined {
    for (const name of alternativeNames(certificate)) {
      const host = reservedHostOf(name, this.#parts.reservedHosts);
      if (host !== undefined) return host;
    }
    return undefined;
  }

  /** For an API session: its SPIFFE id is the only alternative name. */
  async issueSessionCertificate(
    csrPem: string,
    session: {
      readonly identityId: string;
      readonly apiSessionId: string;
      readonly certificateId: string;
      /** In place of that of such certificates. */
      readonly lifetimeMs?: number | undefined;
    },
  ): Promise<IssuedCertificate> {
    const { identityId, apiSessionId, certificateId, lifetimeMs = this.#lifetimes.session } = session;
    const value = `${trustDomainOf(this.#material)}/identity/${identityId}/apiSession/${apiSessionId}/apiSessionCertificate/${certificateId}`;
    const csr = await readCsr(csrPem);
    return this.#issue(csr, ["client"], [{ type: "url", value }], lifetimeMs, this.#now());
  }

  /**
   * A new key for tokens that prove sessions, of the type of the served key, with a certificate that is good for nothing else: verifiers know keys by their
   * certificates. @returns the leaf alone
   */
  async createTokenKey(lifetimeMs: number): Promise<KeyedCertificate> {
    const { keyPem } = await newKeyPair(keyTypeOf(this.#material.server));
    const { pair } = await signingKeys(keyPem);
    const issued = await issue(
      {
        subject: new x509.Name([{ O: ["Sallyport"] }, { CN: ["Sallyport token key"] }]),
        publicKey: pair.publicKey,
        notBefore: new Date(this.#now().getTime() - CLOCK_TOLERANCE_MS),
        lifetimeMs,
        extensions: tokenKeyExtensions(trustDomainOf(this.#material)),
      },
      issuerOf(this.#material, this.#now()),
    );
    return { certPem: issued.leafPem, keyPem };
  }

  /** Fingerprint of the certificate whose key signs enrollment tokens now. */
  get jwtSigner(): string {
    return this.#parts.jwt.kid;
  }

  /** A compact JWT signed with the key of the certificate that the API is served with, so that a client with that certificate can check it. */
  signJwt(claims: Readonly<Record<string, unknown>>): string {
    return this.#parts.jwt.sign(claims);
  }

  /**
   * Renews what is due, keys kept: intermediate, and the controller's certificates, these also when `hosts` are not all covered.
   * @returns the new material to be stored, or undefined when nothing was due.
   */
  async renew(hosts: readonly string[]): Promise<PkiMaterial | undefined> {
    const renewed = await renew(this.#material, { hosts, lifetimes: this.#lifetimes, now: this.#now() });
    if (renewed !== undefined) this.adopt(renewed);
    return renewed;
  }

  #prepare(material = this.#material, replicas = this.#replicas, api = this.#api): Prepared {
    const { controller, server } = material;
    const anchors = anchorsOf(material);
    const caBundlePem = anchors.join("");
    const identityOf = (client: KeyedCertificate, served: KeyedCertificate) =>
      identityFromPem({
        ...{ certPem: client.certPem, keyPem: client.keyPem, caPem: caBundlePem },
        ...{ serverCertPem: served.certPem, serverKeyPem: served.keyPem },
      });
    const networkIdentity = identityOf(controller, server);
    const networkCertificate = new X509Certificate(leafOf(server.certPem));
    const certificates = new Map([[networkIdentity.id, networkCertificate]]);
    for (const [id, { server }] of replicas) certificates.set(id, new X509Certificate(server.certPem));
    const own = this.#replica && replicas.get(this.#replica.id);
    const now = this.#now();
    const serverIdentity = own
      ? identityOf(chained(own.client, material, now), chained(own.server, material, now))
      : networkIdentity;
    // Who dials an address names no server.
    const { apiHost = "" } = this.#replica ?? {};
    const isDialledByAddress = isIP(apiHost) !== 0 && !covers(networkCertificate, apiHost);
    const unnamed = isDialledByAddress ? serverIdentity.defaultServerCertificate : server;
    return {
      ...{ caBundlePem, networkIdentity, networkCertificate, certificates, serverIdentity },
      reservedHosts: reservedHosts([...certificates.values()].flatMap(alternativeNames), this.#sharedHosts),
      jwt: new JwtSigner(api.signer ?? server),
      clientBundlePem: [...new Set([...anchors, ...api.authorities])].join(""),
      trustAnchors: anchors.map((pem) => new X509Certificate(pem)),
      apiIdentity: own ? withServerCertificates(serverIdentity, [server], unnamed) : networkIdentity,
    };
  }

  async #issue(
    csr: Csr,
    purposes: readonly ("client" | "server")[],
    names: readonly (x509.GeneralName | x509.JsonGeneralName)[],
    lifetimeMs: number,
    notBefore = new Date(this.#now().getTime() - CLOCK_TOLERANCE_MS),
  ): Promise<IssuedCertificate> {
    const plain = names.map(({ type, value }) => ({ type, value }) as x509.JsonGeneralName);
    try {
      return await issue(
        {
          subject: csr.subject,
          publicKey: csr.publicKey,
          notBefore,
          lifetimeMs,
          extensions: leafExtensions(purposes, plain),
        },
        issuerOf(this.#material, this.#now()),
      );
    } catch (cause) {
      if (cause instanceof PkiError) throw cause;
      // Ours is always the same, so it is the request's subject, key or names that cannot be written into a certificate.
      throw new CsrError(
        "COULD_NOT_PROCESS_CSR",
        "the CSR could not be processed: no certificate can hold its content",
        {
          cause,
        },
      );
    }
  }
}

/** What follows from the material, made once for all uses. */
interface Prepared {
  readonly reservedHosts: ReadonlySet<string>;
  readonly jwt: JwtSigner;
  readonly caBundlePem: string;
  readonly clientBundlePem: string;
  readonly trustAnchors: readonly X509Certificate[];
  readonly networkIdentity: Identity;
  readonly networkCertificate: X509Certificate;
  readonly certificates: ReadonlyMap<string, X509Certificate>;
  readonly serverIdentity: Identity;
  readonly apiIdentity: Identity;
}
