/** The certificates of a cluster: one authority, which certifies servers and clients alike, for a year. */
import { createPublicKey, randomBytes } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createKeyPair, signingKeys, x509 } from "@sallyport/wire";
import type { Addresses } from "./addresses.ts";

export interface Certificate {
  readonly certPem: string;
  readonly keyPem: string;
}

interface Subject {
  readonly commonName: string;
  /** Kubernetes takes it for the user's group. */
  readonly organization?: string;
  readonly names?: readonly { readonly type: "dns" | "ip"; readonly value: string }[];
}

/** Writes NAME.crt, NAME.key and NAME.kubeconfig of every user and component of a cluster, ca.crt, ca.key and sa.{key,pub} into a folder. */
export async function writeCertificates(folder: string, addresses: Addresses, nodes: number): Promise<Certificate> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const save = (name: string, text: string): void => writeFileSync(join(folder, name), text, { mode: 0o600 });

  const { keyPem } = await createKeyPair("P-256");
  const ca: Certificate = { keyPem, certPem: await certify({ commonName: "cluster under test" }, keyPem, undefined) };
  save("ca.crt", ca.certPem);
  save("ca.key", ca.keyPem);

  const dns = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
  const server = [...dns, "kubernetes.default.svc.cluster.local"].map((value) => ({ type: "dns" as const, value }));
  const ips = ["127.0.0.1", addresses.controlPlane, addresses.kubernetesService];
  const subjects: Record<string, Subject> = {
    apiserver: {
      commonName: "kube-apiserver",
      names: [...server, ...ips.map((value) => ({ type: "ip" as const, value }))],
    },
    "apiserver-kubelet": { commonName: "apiserver-kubelet-client", organization: "system:masters" },
    "front-proxy": { commonName: "front-proxy" },
    admin: { commonName: "admin", organization: "system:masters" },
    "controller-manager": { commonName: "system:kube-controller-manager" },
    scheduler: { commonName: "system:kube-scheduler" },
    proxy: { commonName: "system:kube-proxy" },
  };
  for (let node = 1; node <= nodes; node++) {
    subjects[`kubelet${node}`] = {
      commonName: `system:node:node${node}`,
      organization: "system:nodes",
      names: [
        { type: "dns", value: `node${node}` },
        { type: "ip", value: addresses.node(node) },
      ],
    };
  }
  let admin: Certificate | undefined;
  for (const [name, subject] of Object.entries(subjects)) {
    const { keyPem: own } = await createKeyPair("P-256");
    const certificate = { keyPem: own, certPem: await certify(subject, own, ca) };
    save(`${name}.crt`, certificate.certPem);
    save(`${name}.key`, certificate.keyPem);
    save(`${name}.kubeconfig`, kubeconfig(`https://${addresses.controlPlane}:6443`, ca, certificate));
    if (name === "admin") admin = certificate;
  }
  if (admin === undefined) throw new Error("expected a certificate of the admin among those of the cluster");

  // What the API server signs service accounts' tokens with.
  const tokens = await createKeyPair("P-256");
  save("sa.key", tokens.keyPem);
  save("sa.pub", String(createPublicKey(tokens.keyPem).export({ type: "spki", format: "pem" })));
  return admin;
}

/** A kubeconfig that needs no other file: it may be copied to wherever it is used. */
function kubeconfig(server: string, ca: Certificate, user: Certificate): string {
  const base64 = (pem: string): string => Buffer.from(pem).toString("base64");
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "cluster", cluster: { server, "certificate-authority-data": base64(ca.certPem) } }],
    users: [
      {
        name: "user",
        user: { "client-certificate-data": base64(user.certPem), "client-key-data": base64(user.keyPem) },
      },
    ],
    contexts: [{ name: "cluster", context: { cluster: "cluster", user: "user" } }],
    "current-context": "cluster",
  };
  return `${JSON.stringify(config, undefined, 2)}\n`;
}

async function certify(subject: Subject, keyPem: string, ca: Certificate | undefined): Promise<string> {
  const own = await signingKeys(keyPem);
  const signer = ca === undefined ? own : await signingKeys(ca.keyPem);
  const name = new x509.Name([
    { CN: [subject.commonName] },
    ...(subject.organization === undefined ? [] : [{ O: [subject.organization] }]),
  ]).toString();
  const both = [x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth];
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: `00${randomBytes(15).toString("hex")}`,
    subject: name,
    issuer: ca === undefined ? name : new x509.X509Certificate(ca.certPem).subject,
    notBefore: new Date(Date.now() - 3_600_000),
    notAfter: new Date(Date.now() + 365 * 86_400_000),
    publicKey: own.pair.publicKey,
    signingKey: signer.pair.privateKey,
    signingAlgorithm: signer.algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(ca === undefined, undefined, true),
      new x509.KeyUsagesExtension(
        ca === undefined
          ? x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign
          : x509.KeyUsageFlags.digitalSignature,
        true,
      ),
      ...(ca === undefined ? [] : [new x509.ExtendedKeyUsageExtension(both)]),
      ...(subject.names === undefined ? [] : [new x509.SubjectAlternativeNameExtension([...subject.names])]),
    ],
  });
  return `${certificate.toString("pem")}\n`;
}
