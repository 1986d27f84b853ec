import { generateKeyPairSync, randomBytes } from "node:crypto";

/** What an attacker writes into a certificate. No authority signs it: its signature is random bytes of a valid form. */
export interface Forgery {
  /** Common name, or the DER of a name. */
  readonly subject: string | Uint8Array;
  readonly issuer: string | Uint8Array;
  /** DER of the subject's public key. */
  readonly publicKey: Uint8Array;
  readonly isCa?: boolean;
  /** The form of the signature: the kind of key that the issuer is said to have. */
  readonly signature?: "ecdsa" | "rsa";
  /** Bits of the RSA key that is said to have signed, 3,072 when not given. With a key of another size OpenSSL refuses the signature unseen. */
  readonly signatureBits?: number;
  readonly extensions?: readonly Uint8Array[];
}

/** DER of a certificate that only looks like one. */
export function forgedCertificate({
  subject,
  issuer,
  publicKey,
  isCa = false,
  signature = "ecdsa",
  signatureBits = 3_072,
  extensions = [],
}: Forgery): Buffer {
  const algorithm = sequence(oid(signature === "rsa" ? OID.sha256WithRsa : OID.ecdsaWithSha256));
  const all = [
    ...(isCa ? [extension(OID.basicConstraints, sequence(Buffer.of(1, 1, 0xff)), true)] : []),
    ...extensions,
  ];
  const body = sequence(
    tlv(0xa0, Buffer.of(2, 1, 2)),
    integer(modulus(12, 0)),
    algorithm,
    nameOf(issuer),
    sequence(tlv(0x17, Buffer.from("200101000000Z")), tlv(0x17, Buffer.from("491231235959Z"))),
    nameOf(subject),
    publicKey,
    ...(all.length > 0 ? [tlv(0xa3, sequence(...all))] : []),
  );
  const value =
    signature === "rsa" ? modulus(signatureBits / 8, 0) : sequence(integer(modulus(32, 0)), integer(modulus(32, 0)));
  return sequence(body, algorithm, bitString(value));
}

/** DER of an unsigned PKCS#10 request, as for a certificate. */
export function forgedRequest({ subject, publicKey }: Pick<Forgery, "subject" | "publicKey">): Buffer {
  const body = sequence(Buffer.of(2, 1, 0), nameOf(subject), publicKey, tlv(0xa0));
  return sequence(body, sequence(oid(OID.sha256WithRsa)), bitString(modulus(256, 0)));
}

export function pemOf(der: Buffer, label = "CERTIFICATE"): string {
  const lines = der.toString("base64").replace(/.{64}(?=.)/g, "$&\n");
  return `-----BEGIN ${label}-----\n${lines}\n-----END ${label}-----\n`;
}

/** A key of which nothing but the form is right: `bits` of modulus, and an exponent as long as is asked for. */
export function forgedRsaKey(bits: number, exponentBits: number): Buffer {
  const exponent = modulus(Math.ceil(exponentBits / 8), 1);
  return sequence(
    sequence(oid(OID.rsa), Buffer.of(5, 0)),
    bitString(sequence(integer(modulus(bits / 8, 1)), integer(exponent))),
  );
}

/** DER of the public half of a new key. */
export function ecKey(namedCurve = "P-256", paramEncoding: "named" | "explicit" = "named"): Buffer {
  const { publicKey } = generateKeyPairSync("ec", { namedCurve, paramEncoding });
  return publicKey.export({ type: "spki", format: "der" });
}

/** One extension. @param oidHex the content of its object identifier, in hex */
export function extension(oidHex: string, value: Uint8Array, isCritical = false): Buffer {
  return sequence(oid(oidHex), ...(isCritical ? [Buffer.of(1, 1, 0xff)] : []), tlv(4, value));
}

export function commonNameDer(text: string): Buffer {
  return sequence(tlv(0x31, sequence(oid(OID.commonName), tlv(0x0c, Buffer.from(text)))));
}

/** Contents of object identifiers, in hex. */
export const OID = {
  commonName: "550403",
  subjectKeyId: "551d0e",
  subjectAltName: "551d11",
  basicConstraints: "551d13",
  nameConstraints: "551d1e",
  policies: "551d20",
  authorityKeyId: "551d23",
  rsa: "2a864886f70d010101",
  sha256WithRsa: "2a864886f70d01010b",
  ecdsaWithSha256: "2a8648ce3d040302",
} as const;

export function tlv(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const size = content.length;
  const length =
    size < 0x80 ? [size] : size < 0x100 ? [0x81, size] : size < 0x10000 ? [0x82, size >> 8, size & 0xff] : undefined;
  if (length === undefined) throw new RangeError(`expected at most 65,535 bytes of DER content, got ${size}`);
  return Buffer.concat([Buffer.of(tag, ...length), content]);
}

export function sequence(...parts: readonly Uint8Array[]): Buffer {
  return tlv(0x30, ...parts);
}

/** @param hex the content */
export function oid(hex: string): Buffer {
  return tlv(6, Buffer.from(hex, "hex"));
}

function nameOf(name: string | Uint8Array): Uint8Array {
  return typeof name === "string" ? commonNameDer(name) : name;
}

/** Of bytes that do not begin with 0. */
function integer(bytes: Uint8Array): Buffer {
  return (bytes[0] ?? 0) < 0x80 ? tlv(2, bytes) : tlv(2, Buffer.of(0), bytes);
}

function bitString(bytes: Uint8Array): Buffer {
  return tlv(3, Buffer.of(0), bytes);
}

/** Random bytes of which the last ends in `lowest`; the first bit is 1 in odd numbers, and 0 in others, so that these are smaller. */
function modulus(length: number, lowest: 0 | 1): Buffer {
  const bytes = randomBytes(length);
  bytes[0] = lowest === 1 ? (bytes[0] ?? 0) | 0x80 : ((bytes[0] ?? 0) & 0x3f) | 0x40;
  bytes[length - 1] = (bytes[length - 1] ?? 0) | lowest;
  return bytes;
}
