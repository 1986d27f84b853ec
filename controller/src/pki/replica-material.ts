/** What one process of several presents, and how it changes: functions from material to material. */
import { X509Certificate } from "node:crypto";
import { readPrivateKey } from "@sallyport/wire";
import { isDueForRenewal, type KeyedCertificate, type Lifetimes, leafOf, PkiError, withoutRoots } from "./issue.ts";
import { covers, isOutlived, issuerOf, newKeys, ownCertificates, type PkiMaterial, trustDomainOf } from "./material.ts";

/** Keys and certificates of one replica. Each certificate is the leaf alone: what stands above it is the network's, and changes with it. */
export interface ReplicaMaterial {
  /** What the replica presents as a client; its common name is the replica's id. */
  readonly client: KeyedCertificate;
  /** What routers and clients see at the replica's own addresses. */
  readonly server: KeyedCertificate;
}

export interface ReplicaRequest {
  readonly id: string;
  /** Host names and IP addresses under which the replica is reached, the shared ones among them. */
  readonly hosts: readonly string[];
  readonly lifetimes: Lifetimes;
  readonly now: Date;
}

/**
 * Issues what a replica lacks or will soon need: without material, after the network's authority was replaced, when a certificate is due, or when `hosts` are not
 * all covered. Keys are kept.
 * @returns undefined when nothing was due
 */
export async function renewReplica(
  network: PkiMaterial,
  current: ReplicaMaterial | undefined,
  { id, hosts, lifetimes, now }: ReplicaRequest,
): Promise<ReplicaMaterial | undefined> {
  if (current !== undefined && !isDue(network, current, hosts, now)) return undefined;
  const keys = current ? { controller: current.client.keyPem, server: current.server.keyPem } : await newKeys("ec");
  const own = { id, hosts, lifetimes, now, trustDomain: trustDomainOf(network) };
  const { controller, server } = await ownCertificates(issuerOf(network, now), own, keys);
  return { client: leafAlone(controller), server: leafAlone(server) };
}

function isDue(
  { intermediate }: PkiMaterial,
  { client, server }: ReplicaMaterial,
  hosts: readonly string[],
  now: Date,
): boolean {
  const issuer = new X509Certificate(leafOf(intermediate.certPem));
  const isLeafDue = (certificate: KeyedCertificate) => {
    const leaf = new X509Certificate(certificate.certPem);
    if (!leaf.checkIssued(issuer) || !leaf.verify(issuer.publicKey)) return true;
    return isDueForRenewal(leaf, now) && !isOutlived(certificate, intermediate);
  };
  if (isLeafDue(client) || isLeafDue(server)) return true;
  const leaf = new X509Certificate(server.certPem);
  return hosts.some((host) => !covers(leaf, host));
}

function leafAlone({ certPem, keyPem }: KeyedCertificate): KeyedCertificate {
  return { certPem: leafOf(certPem), keyPem };
}

/** A certificate of a replica with what stands above it. */
export function chained({ certPem, keyPem }: KeyedCertificate, network: PkiMaterial, now: Date): KeyedCertificate {
  return { certPem: certPem + withoutRoots(issuerOf(network, now).chainPem), keyPem };
}

/** Checks stored material: each key fits its certificate. @throws PkiError naming the part. */
export function checkReplicaMaterial(id: string, material: ReplicaMaterial): ReplicaMaterial {
  for (const part of ["client", "server"] as const) {
    const { certPem, keyPem }: Partial<KeyedCertificate> = material[part] ?? {};
    try {
      if (new X509Certificate(leafOf(certPem ?? "")).checkPrivateKey(readPrivateKey(keyPem ?? ""))) continue;
      throw new PkiError("the key does not belong to the certificate");
    } catch (cause) {
      const reason = (cause as Error).message;
      throw new PkiError(`the stored ${part} certificate of replica ${id} cannot be used: ${reason}`, { cause });
    }
  }
  return material;
}
