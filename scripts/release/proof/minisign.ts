/** Signatures in the form of minisign (https://jedisct1.github.io/minisign/), which `minisign -V` checks. */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign } from "node:crypto";

/** A file that is no secret key of minisign, or none that can be used here. */
export class SigningKeyError extends Error {
  override name = "SigningKeyError";
}

export interface SigningKey {
  /** The eight bytes by which a public key is found. */
  readonly id: Buffer;
  readonly key: KeyObject;
}

const UNENCRYPTED = "\0\0";
/** Algorithms: of keys, and of signatures of a hash. */
const [ED25519, HASHED] = ["Ed", "ED"];
const LENGTH = 158;
/** What turns the 32 bytes of an Ed25519 seed into PKCS#8. */
const PKCS8 = Buffer.from("302e020100300506032b657004220420", "hex");

/**
 * @param text of the file that `minisign -G -W` writes
 * @throws SigningKeyError
 */
export function readSigningKey(text: string): SigningKey {
  const [, line = ""] = text.split("\n");
  const bytes = Buffer.from(line, "base64");
  if (bytes.length !== LENGTH || bytes.toString("latin1", 0, 2) !== ED25519)
    throw new SigningKeyError(
      "expected a secret key of minisign: make one with: minisign -G -W -s release.key -p release.pub",
    );
  if (bytes.toString("latin1", 2, 4) !== UNENCRYPTED)
    throw new SigningKeyError(
      "the key is encrypted with a password; write it without one: minisign -C -W -s release.key",
    );
  // Algorithms of signature, key derivation and checksum (6), salt and limits (48), then the key: id (8), seed (32), public key (32), checksum (32).
  const id = bytes.subarray(54, 62);
  const key = createPrivateKey({ key: Buffer.concat([PKCS8, bytes.subarray(62, 94)]), format: "der", type: "pkcs8" });
  const ownPublic = createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32);
  if (!ownPublic.equals(bytes.subarray(94, 126)))
    throw new SigningKeyError("the key is damaged: its public half belongs to another one");
  return { id, key };
}

/**
 * The text of `<file>.minisig`. The same key and content give the same text.
 *
 * @param comment one line that is signed, too, and that `minisign -V` prints
 */
export function minisign(content: Buffer, { id, key }: SigningKey, comment: string): string {
  const signature = sign(null, createHash("blake2b512").update(content).digest(), key);
  const whole = sign(null, Buffer.concat([signature, Buffer.from(comment)]), key);
  const own = Buffer.concat([Buffer.from(HASHED ?? ""), id, signature]);
  return `untrusted comment: signature of a release of Sallyport\n${own.toString("base64")}\ntrusted comment: ${comment}\n${whole.toString("base64")}\n`;
}
