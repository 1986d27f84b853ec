import { X509Certificate } from "node:crypto";
import type { TestAuthority } from "./authority.ts";
import {
  commonNameDer,
  ecKey,
  extension,
  type Forgery,
  forgedCertificate,
  forgedRsaKey,
  OID,
  sequence,
  tlv,
} from "./forged-certificate.ts";

/** What is tried against the search for an issuer: DER, the leaf first, 64 KiB together at most. */
export interface HostileChain {
  readonly name: string;
  readonly certificates: readonly Uint8Array[];
}

export const MAX_CHAIN_BYTES = 64 * 1024;

/** The chains of an attacker who knows the network's anchors, which are public. */
export function hostileChains(root: TestAuthority): HostileChain[] {
  const anchorName = commonNameDer(new X509Certificate(root.certPem).subject.replace(/^CN=/, ""));
  const publicKey = ecKey();
  const slow = forgedRsaKey(3_072, 3_000);
  const leafBelow = (issuer: Forgery["issuer"], more: Partial<Forgery> = {}) =>
    forgedCertificate({ subject: "leaf", issuer, publicKey, ...more });
  const ca = (subject: Forgery["subject"], issuer: Forgery["issuer"], more: Partial<Forgery> = {}) =>
    forgedCertificate({ subject, issuer, publicKey: slow, isCa: true, signature: "rsa", ...more });
  const small = (subject: Forgery["subject"], issuer: Forgery["issuer"]) =>
    ca(subject, issuer, { publicKey, signature: "ecdsa" });

  const keyId = extension(OID.subjectKeyId, tlv(4, Buffer.alloc(20, 7)));
  const issuerKeyId = extension(OID.authorityKeyId, sequence(tlv(0x80, Buffer.alloc(20, 7))));
  const levels = (width: number) => (place: number) => {
    const level = Math.floor(place / width);
    return ca(`level ${level}`, `level ${level + 1}`, {
      publicKey,
      signature: "ecdsa",
      extensions: [keyId, issuerKeyId],
    });
  };
  const dnsName = (place: number) => tlv(0x82, Buffer.from(`${place.toString(36)}.a`));
  const constraint = (place: number) => sequence(tlv(0x82, Buffer.from(`${place.toString(36)}.a`)));
  const part = (place: number) =>
    tlv(0x31, sequence(tlv(6, Buffer.from("550403", "hex")), tlv(0x0c, Buffer.from(place.toString(36)))));
  const again = ca("again", "again");
  const curve = ecKey("secp521r1", "explicit");
  const binary = ecKey("sect571k1", "explicit");

  return [
    filled("look-alikes of one name, RSA with an exponent of 3,000 bits", leafBelow("x", { signature: "rsa" }), () =>
      ca("x", "x"),
    ),
    filled("look-alikes of the anchor, RSA with an exponent of 3,000 bits", leafBelow(anchorName), () =>
      ca(anchorName, anchorName, { signature: "ecdsa" }),
    ),
    filled("look-alikes of the anchor, small", leafBelow(anchorName), () => small(anchorName, anchorName)),
    filled("one behind the other, the last below the anchor", leafBelow("x0"), (place, isLast) =>
      small(`x${place}`, isLast ? anchorName : `x${place + 1}`),
    ),
    filled("one behind the other, RSA with an exponent of 3,000 bits", leafBelow("x0"), (place) =>
      ca(`x${place}`, `x${place + 1}`),
    ),
    filled(
      "5 with the same key identifiers on each level",
      leafBelow("level 0", { extensions: [issuerKeyId] }),
      levels(5),
    ),
    filled(
      "20 with the same key identifiers on each level",
      leafBelow("level 0", { extensions: [issuerKeyId] }),
      levels(20),
    ),
    filled("RSA keys of 16,384 bits", leafBelow("x", { signature: "rsa", signatureBits: 16_384 }), () =>
      ca("x", "x", { publicKey: forgedRsaKey(16_384, 64), signatureBits: 16_384 }),
    ),
    filled("curves by their parameters", leafBelow("x"), () => ca("x", "x", { publicKey: curve, signature: "ecdsa" })),
    filled("binary curves by their parameters", leafBelow("x"), () =>
      ca("x", "x", { publicKey: binary, signature: "ecdsa" }),
    ),
    filled("the same certificate again and again", leafBelow("again", { signature: "rsa" }), () => again),
    one("an extension of 60 KB", leafBelow(anchorName, { extensions: [extension("2a0304", Buffer.alloc(60_000))] })),
    one(
      "5,000 extensions",
      leafBelow(anchorName, {
        extensions: many(5_000, (place) =>
          extension(`2a03${((place % 100) + 10).toString(16).padStart(2, "0")}`, Buffer.of(5, 0)),
        ),
      }),
    ),
    one(
      "6,000 alternative names",
      leafBelow(anchorName, { extensions: [extension(OID.subjectAltName, sequence(...many(6_000, dnsName)))] }),
    ),
    one(
      "4,000 name constraints",
      leafBelow("x"),
      ca("x", anchorName, {
        signature: "ecdsa",
        extensions: [extension(OID.nameConstraints, sequence(tlv(0xa0, ...many(4_000, constraint))), true)],
      }),
    ),
    one("a name of 3,500 parts", leafBelow("x", { subject: sequence(...many(3_500, part)) })),
    one("an issuer's name of 3,500 parts", leafBelow(sequence(...many(3_500, part)))),
    one("a name of 60,000 characters", leafBelow("x", { subject: "\u0001".repeat(60_000) })),
  ];
}

function many(count: number, make: (place: number) => Uint8Array): Uint8Array[] {
  return Array.from({ length: count }, (_, place) => make(place));
}

function one(name: string, ...certificates: readonly Uint8Array[]): HostileChain {
  return { name, certificates };
}

/** As many as there is room for. `isLast` is told of the one after which there is room for none. */
function filled(name: string, leaf: Uint8Array, next: (place: number, isLast: boolean) => Uint8Array): HostileChain {
  const certificates = [leaf];
  let size = leaf.length;
  for (let place = 0; ; place++) {
    const made = next(place, false);
    if (size + made.length > MAX_CHAIN_BYTES) return { name, certificates };
    const isLast = size + 2 * made.length + 64 > MAX_CHAIN_BYTES;
    certificates.push(isLast ? next(place, true) : made);
    size += made.length;
  }
}
