/** Everything of a network's PKI that is kept, and how it changes: functions from material to material. */
import { randomBytes, X509Certificate } from "node:crypto";
import { isIP } from "node:net";
import { createKeyPair, identityFromPem, readPrivateKey, signingKeys, splitPem, x509 } from "@sallyport/wire";
import { createAuthority, crossSign, importAuthority, type RootCertificate } from "./authority.ts";
import {
  CLOCK_TOLERANCE_MS,
  describe,
  hostNames,
  type Issuer,
  isDueForRenewal,
  issue,
  type KeyedCertificate,
  type Lifetimes,
  leafExtensions,
  leafOf,
  PkiError,
  withoutRoots,
} from "./issue.ts";

/** Everything of the network's PKI that must be kept, keys included. */
export interface PkiMaterial {
  readonly root: RootCertificate;
  /** Signs what the network issues. */
  readonly intermediate: KeyedCertificate;
  /** What the controller presents as a client; its common name is the controller's id. */
  readonly controller: KeyedCertificate;
  /** What the API and the control channel are served with; its key signs tokens. */
  readonly server: KeyedCertificate;
  /** SPIFFE id of the trust domain; absent when the root names it. */
  readonly trustDomain?: string;
  /**
   * After a rotation: the intermediate's certificate as the former root signed it. It stands in the chains that are presented, so that
   * a client that knows only the former root can follow them.
   */
  readonly bridgePem?: string;
  /** After a rotation, until it is retired: the authority that issued before, still trusted. */
  readonly former?: { readonly rootPem: string; readonly intermediatePem: string };
}

export interface PkiRequest {
  /** Id of the controller: routers key sessions and circuits by it, so it must never change. */
  readonly controllerId: string;
  /** Host names and IP addresses under which it is reached. */
  readonly hosts: readonly string[];
  readonly lifetimes: Lifetimes;
  readonly now?: Date;
  /** An authority of the operator's own, in place of a new one: see `importAuthority`. */
  readonly imported?: KeyedCertificate | undefined;
  /** Of the key that the API and the control channel are served with, and that signs tokens; `ec` when absent. */
  readonly serverKeyType?: KeyType | undefined;
}

/** EC P-256, or RSA of 2048 bits for clients that verify no other tokens (docs/compatibility.md, "Old C SDKs"). */
export type KeyType = "ec" | "rsa";

/**
 * Makes the keys and certificates of a new network: root and intermediate, unless imported, and the controller's two. Keys are EC P-256; the served one
 * may be RSA.
 */
export async function createPkiMaterial(request: PkiRequest): Promise<PkiMaterial> {
  const { lifetimes, now = new Date(), imported } = request;
  const trustDomain = `spiffe://sallyport-${randomBytes(8).toString("hex")}`;
  const making = { lifetimes, now, trustDomain };
  const authority = imported === undefined ? await createAuthority(making) : await importAuthority(making, imported);
  const own = { ...making, hosts: request.hosts, id: request.controllerId };
  const keys = await newKeys(request.serverKeyType ?? "ec");
  return { ...authority, trustDomain, ...(await ownCertificates(issuerOf(authority, now), own, keys)) };
}

export interface Rotation {
  readonly hosts: readonly string[];
  readonly lifetimes: Lifetimes;
  readonly now: Date;
  /** The new authority; a new one is made when absent. */
  readonly imported?: KeyedCertificate | undefined;
  /** The controller's own two keys are replaced, too, each by one of its type. */
  readonly newKeys: boolean;
}

/**
 * Puts a new root and intermediate in the place of the present ones. The former ones stay trusted, and the new intermediate is also signed by the
 * former root, so that peers that know only the former root go on without a break (docs/protocol/pki.md, "Rotation").
 *
 * @throws PkiError when an earlier rotation is not finished, or the root's key is not here
 */
export async function rotate(material: PkiMaterial, rotation: Rotation): Promise<PkiMaterial> {
  const { root, intermediate } = material;
  if (material.former !== undefined) {
    throw new PkiError(
      "the authority before this one is still trusted: finish that rotation first (pki rotate --retire)",
    );
  }
  if (root.keyPem === undefined) {
    throw new PkiError("the key of the present root is not in the database, so it cannot sign for its successor");
  }
  const { lifetimes, now, imported } = rotation;
  const making = { lifetimes, now, trustDomain: trustDomainOf(material) };
  const authority = imported === undefined ? await createAuthority(making) : await importAuthority(making, imported);
  const bridgePem = await crossSign({ certPem: root.certPem, keyPem: root.keyPem }, authority.intermediate, making);
  const keys = rotation.newKeys
    ? await newKeys(keyTypeOf(material.server))
    : { controller: material.controller.keyPem, server: material.server.keyPem };
  const own = { ...making, hosts: [...rotation.hosts, ...hostsOf(material.server)], id: controllerIdOf(material) };
  return {
    ...authority,
    ...(await ownCertificates(issuerOf({ ...authority, bridgePem }, now), own, keys)),
    trustDomain: making.trustDomain,
    bridgePem,
    former: { rootPem: root.certPem, intermediatePem: intermediate.certPem },
  };
}

export async function newKeys(serverKeyType: KeyType): Promise<{ controller: string; server: string }> {
  const [controller, server] = await Promise.all([newKeyPair("ec"), newKeyPair(serverKeyType)]);
  return { controller: controller.keyPem, server: server.keyPem };
}

export function newKeyPair(type: KeyType): ReturnType<typeof createKeyPair> {
  return createKeyPair(type === "rsa" ? "RSA-2048" : "P-256");
}

export function keyTypeOf({ keyPem }: KeyedCertificate): KeyType {
  return readPrivateKey(keyPem).asymmetricKeyType === "rsa" ? "rsa" : "ec";
}

/**
 * Ends the trust in the former authority.
 * @param keepBridge peers that still know only the former root can follow our chains as before
 */
export function retire(material: PkiMaterial, keepBridge: boolean, now: Date): PkiMaterial {
  const { former: _, bridgePem, ...rest } = material;
  if (keepBridge && bridgePem !== undefined) return { ...rest, bridgePem };
  const { chainPem } = issuerOf(rest, now);
  const rechained = ({ certPem, keyPem }: KeyedCertificate) => ({
    certPem: leafOf(certPem) + withoutRoots(chainPem),
    keyPem,
  });
  return { ...rest, controller: rechained(rest.controller), server: rechained(rest.server) };
}

/**
 * Renews what is due, keys kept: intermediate, and the controller's certificates, these also when `hosts` are not all covered.
 * @returns undefined when nothing was due
 */
export async function renew(
  material: PkiMaterial,
  { hosts, lifetimes, now }: { hosts: readonly string[]; lifetimes: Lifetimes; now: Date },
): Promise<PkiMaterial | undefined> {
  const due = ({ certPem }: KeyedCertificate) => isDueForRenewal(new X509Certificate(leafOf(certPem)), now);
  const { root } = material;
  let { intermediate, controller, server } = material;
  const making = { lifetimes, now, trustDomain: trustDomainOf(material) };
  if (due(intermediate) && root.keyPem !== undefined && !isOutlived(intermediate, root)) {
    const certPem = await crossSign({ certPem: root.certPem, keyPem: root.keyPem }, material.intermediate, making);
    intermediate = { certPem, keyPem: intermediate.keyPem };
  }
  const authorityChanged = intermediate !== material.intermediate;
  const serverLeaf = new X509Certificate(leafOf(server.certPem));
  const isUncovered = hosts.some((host) => !covers(serverLeaf, host));
  const own = { ...making, hosts: [...hosts, ...hostsOf(server)], id: controllerIdOf(material) };
  const issuer = issuerOf({ ...material, intermediate }, now);
  const both = () => ownCertificates(issuer, own, { controller: controller.keyPem, server: server.keyPem });
  const wantsController = authorityChanged || (due(controller) && !isOutlived(controller, intermediate));
  const wantsServer = authorityChanged || isUncovered || (due(server) && !isOutlived(server, intermediate));
  if (!wantsController && !wantsServer) return undefined;
  const issued = await both();
  if (wantsController) controller = issued.controller;
  if (wantsServer) server = issued.server;
  return { ...material, intermediate, controller, server };
}

/** What ends with its issuer anyway gains nothing from being issued again. */
export function isOutlived(certificate: KeyedCertificate, issuer: { readonly certPem: string }): boolean {
  const end = (pem: string) => new X509Certificate(leafOf(pem)).validToDate.getTime();
  return end(certificate.certPem) >= end(issuer.certPem);
}

/** The signer, and the chain that is presented with what it signs. */
export function issuerOf(
  { intermediate, bridgePem }: Pick<PkiMaterial, "intermediate" | "bridgePem">,
  now: Date,
): Issuer & { readonly chainPem: string } {
  const isBridged = bridgePem !== undefined && new X509Certificate(bridgePem).validToDate > now;
  return { ...intermediate, chainPem: isBridged ? bridgePem : intermediate.certPem };
}

/** Every certificate that makes a certificate of the network trusted, the present authority's first. */
export function anchorsOf({ root, intermediate, former }: PkiMaterial): string[] {
  const pems = [root.certPem, intermediate.certPem, former?.rootPem ?? "", former?.intermediatePem ?? ""];
  return [...new Set(pems.flatMap(splitPem))];
}

/** The id of the network's controller: that of a process without one of its own. */
export function controllerIdOf({ controller, server }: PkiMaterial): string {
  return identityFromPem({
    certPem: controller.certPem,
    keyPem: controller.keyPem,
    serverCertPem: server.certPem,
    serverKeyPem: server.keyPem,
  }).id;
}

/** The SPIFFE id of the network's trust domain. */
export function trustDomainOf({ trustDomain, root }: Pick<PkiMaterial, "trustDomain" | "root">): string {
  const pem = leafOf(root.certPem);
  const names = new x509.X509Certificate(pem).getExtension(x509.SubjectAlternativeNameExtension)?.names.items;
  const id = names?.find(({ type, value }) => type === "url" && value.startsWith("spiffe://"))?.value;
  return trustDomain ?? id ?? `spiffe://${describe(pem, "").fingerprint}`;
}

interface Own {
  readonly id: string;
  readonly hosts: readonly string[];
  readonly lifetimes: Lifetimes;
  readonly now: Date;
  readonly trustDomain: string;
}

export async function ownCertificates(
  issuer: Issuer,
  own: Own,
  keys: { readonly controller: string; readonly server: string },
): Promise<{ controller: KeyedCertificate; server: KeyedCertificate }> {
  const uri: x509.JsonGeneralName = { type: "url", value: `${own.trustDomain}/controller/${own.id}` };
  return {
    controller: await issueOwn(issuer, own, keys.controller, "client", [uri]),
    server: await issueOwn(issuer, own, keys.server, "server", [...hostNames(own.hosts), uri]),
  };
}

async function issueOwn(
  issuer: Issuer,
  { id, lifetimes, now }: Own,
  keyPem: string,
  purpose: "client" | "server",
  names: readonly x509.JsonGeneralName[],
): Promise<KeyedCertificate> {
  const { pair } = await signingKeys(keyPem);
  const issued = await issue(
    {
      subject: new x509.Name([{ O: ["Sallyport"] }, { CN: [id] }]),
      publicKey: pair.publicKey,
      notBefore: new Date(now.getTime() - CLOCK_TOLERANCE_MS),
      lifetimeMs: lifetimes.controller,
      extensions: leafExtensions([purpose], names),
    },
    issuer,
  );
  return { certPem: issued.pem, keyPem };
}

export function covers(certificate: X509Certificate, host: string): boolean {
  return (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) !== undefined;
}

/** The DNS names and addresses of a certificate. */
export function hostsOf({ certPem }: Pick<KeyedCertificate, "certPem">): string[] {
  return alternativeNames(new X509Certificate(leafOf(certPem)))
    .filter(({ type }) => type === "dns" || type === "ip")
    .map(({ value }) => value);
}

export function alternativeNames(certificate: X509Certificate): readonly x509.GeneralName[] {
  return (
    new x509.X509Certificate(certificate.raw).getExtension(x509.SubjectAlternativeNameExtension)?.names.items ?? []
  );
}

/** Parses and checks stored material: each key fits its certificate. @throws PkiError naming the part. */
export function checkMaterial(material: PkiMaterial): PkiMaterial {
  for (const part of ["root", "intermediate", "controller", "server"] as const) {
    const { certPem, keyPem }: { certPem?: string; keyPem?: string } = material[part] ?? {};
    try {
      const certificate = new X509Certificate(leafOf(certPem ?? ""));
      if (keyPem === undefined && part === "root") continue;
      if (!certificate.checkPrivateKey(readPrivateKey(keyPem ?? ""))) {
        throw new PkiError("the key does not belong to the certificate");
      }
    } catch (cause) {
      throw new PkiError(`the stored ${part} certificate cannot be used: ${(cause as Error).message}`, { cause });
    }
  }
  return material;
}
