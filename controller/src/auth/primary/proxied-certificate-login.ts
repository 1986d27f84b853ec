import { X509Certificate } from "node:crypto";
import { CertificateError, fingerprint, IssuerSearch, verifyLeaf } from "@sallyport/wire";
import type { ModelContext } from "../../model/context.ts";
import type { Routers } from "../../model/network/routers.ts";
import { issuingAuthority, storedThirdPartyCa } from "../../pki/third-party-ca.ts";
import { usableCas } from "../client-certificate.ts";
import type { CertificateLogin } from "./certificate-login.ts";
import { type Proof, refused } from "./proof.ts";

/** A request that a proxy passes on. */
export interface ProxiedCertificates {
  /** The certificates that the proxy presented, leaf first. */
  readonly proxyCertificates: readonly X509Certificate[];
  /** When it passed the request on, by its own clock: each header of that name. */
  readonly passedOnAt: readonly string[];
  /** What it says that the client presented, leaf first: each the base64 of the DER. */
  readonly clientCertificates: readonly string[];
  /** The client's address, as the proxy says. */
  readonly clientIp?: string | undefined;
}

const MAX_CERTIFICATES = 10;
/**
 * The time as routers write it that remove the client's headers of these names. Those of v1.6 may keep the client's headers, and write the time in another
 * form.
 */
const PASSED_ON_AT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})+(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Authentication by the certificate of a TLS connection that ended at a router (docs/protocol/certificate-login.md, "Through a router"). Only the router saw
 * that the client holds its key, so the router has to prove itself.
 */
export class ProxiedCertificateLogin {
  readonly #ctx: ModelContext;
  readonly #routers: Pick<Routers, "findByFingerprint">;
  readonly #byCertificate: CertificateLogin;

  constructor(ctx: ModelContext, routers: Pick<Routers, "findByFingerprint">, byCertificate: CertificateLogin) {
    this.#ctx = ctx;
    this.#routers = routers;
    this.#byCertificate = byCertificate;
  }

  /** @throws ApiError 401 */
  async prove({ proxyCertificates, passedOnAt, clientCertificates }: ProxiedCertificates): Promise<Proof> {
    const routerId = await this.#requireRouter(proxyCertificates);
    if (!areOwnHeaders(passedOnAt)) {
      throw refused(
        `router ${routerId} passes on headers as its client wrote them (a router of v1.6?): the client cannot be identified`,
      );
    }
    const chain = chainOf(clientCertificates);
    if (chain === undefined || !(await this.#isIssuedInOrder(chain))) {
      throw refused(`what router ${routerId} says it was presented is no chain of certificates`);
    }
    const proof = await this.#byCertificate.prove(chain);
    // An attacker in a router must not become an administrator by knowing a certificate, which is no secret.
    const { identity } = proof.principal;
    if (identity.is_admin) {
      throw refused(`identity ${identity.id} is an administrator: router ${routerId} cannot vouch for it`);
    }
    return { ...proof, isPassedOn: true };
  }

  /** Is it the current certificate of an enabled edge router? One statement. */
  async mayPassOn(print: string): Promise<boolean> {
    const router = await this.#routers.findByFingerprint(this.#ctx.store.db, print);
    return router?.fingerprint === print && router.kind === "edge" && !router.disabled;
  }

  /** @throws ApiError 401 unless it is an enrolled, enabled edge router with the certificate that it has now */
  async #requireRouter([leaf, ...intermediates]: readonly X509Certificate[]): Promise<string> {
    if (leaf === undefined) throw refused("the proxy that passes the request on presented no certificate");
    const print = fingerprint(leaf);
    const router = await this.#routers.findByFingerprint(this.#ctx.store.db, print);
    // One that still has to be confirmed over the control channel is not the router's certificate yet.
    if (router?.fingerprint !== print || router.kind !== "edge") {
      throw refused(`certificate ${print}, over which the request was passed on, belongs to no edge router`);
    }
    if (router.disabled) throw refused(`router ${router.id}, which passed the request on, is disabled`);
    try {
      verifyLeaf({ leaf, intermediates, anchors: this.#ctx.pki.trustAnchors, at: this.#ctx.now() });
    } catch (error) {
      if (error instanceof CertificateError) throw refused(`router ${router.id}: ${error.message}`);
      throw error;
    }
    return router.id;
  }

  /**
   * Whether each certificate was issued by the next. Some routers append what they were presented to the client's own headers, so a foreign chain must not
   * continue. The check begins at the end, at a known authority or one issued by it: no unverified key is used.
   */
  async #isIssuedInOrder(chain: readonly X509Certificate[]): Promise<boolean> {
    const [top, ...below] = chain.toReversed();
    if (top === undefined || below.length === 0) return top !== undefined;
    if (!(await this.#isKnown(top))) return false;
    let issuer = top;
    for (const certificate of below) {
      if (this.#searchFor(certificate).under([issuer]) === undefined) return false;
      issuer = certificate;
    }
    return true;
  }

  async #isKnown(authority: X509Certificate): Promise<boolean> {
    const anchors = this.#ctx.pki.trustAnchors;
    const isItself = (known: X509Certificate) => known.raw.equals(authority.raw);
    const search = this.#searchFor(authority);
    if (anchors.some(isItself) || search.under(anchors) !== undefined) return true;
    const cas = await usableCas(this.#ctx.store.db);
    return (
      cas
        .map(({ cert_pem }) => storedThirdPartyCa(cert_pem))
        .some(({ certificate, others }) => [certificate, ...others].some(isItself)) ||
      issuingAuthority(search, cas) !== undefined
    );
  }

  /** The code that judges the leaf checks its dates. */
  #searchFor(leaf: X509Certificate): IssuerSearch {
    return new IssuerSearch({ leaf, intermediates: [], at: this.#ctx.now(), checkDates: false });
  }
}

/**
 * What the proxy says that its client presented, leaf first; undefined unless it removes the headers that clients write themselves. Whether the proxy may vouch
 * is not asked.
 */
export function passedOnChain({ passedOnAt, clientCertificates }: ProxiedCertificates): X509Certificate[] | undefined {
  return areOwnHeaders(passedOnAt) ? chainOf(clientCertificates) : undefined;
}

/** Whether the proxy wrote the headers: it removes those that clients write themselves. */
function areOwnHeaders([at, another]: ProxiedCertificates["passedOnAt"]): boolean {
  return at !== undefined && another === undefined && PASSED_ON_AT.test(at);
}

/** The certificates, leaf first; undefined unless each names the next as its issuer. */
export function chainOf(texts: readonly string[]): X509Certificate[] | undefined {
  if (texts.length === 0 || texts.length > MAX_CERTIFICATES) return undefined;
  const chain: X509Certificate[] = [];
  for (const text of texts) {
    const certificate = certificateOf(text);
    if (certificate === undefined) return undefined;
    const issued = chain.at(-1);
    if (issued !== undefined && !(certificate.ca && issued.checkIssued(certificate))) return undefined;
    chain.push(certificate);
  }
  return chain;
}

function certificateOf(text: string): X509Certificate | undefined {
  if (!BASE64.test(text)) return undefined;
  const der = Buffer.from(text, "base64");
  try {
    const certificate = new X509Certificate(der);
    // Node also reads PEM, and bytes behind the certificate; routers send neither.
    return certificate.raw.equals(der) ? certificate : undefined;
  } catch {
    return undefined;
  }
}
