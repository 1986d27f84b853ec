import { createHash, createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { describe, expect, it } from "vitest";
import { minisign, readSigningKey, SigningKeyError } from "./minisign.ts";

const ID = Buffer.from("0102030405060708", "hex");
const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const seed = privateKey.export({ format: "der", type: "pkcs8" }).subarray(-32);
const point = publicKey.export({ format: "der", type: "spki" }).subarray(-32);

function keyFile(o: { algorithm?: string; derivation?: string; point?: Buffer } = {}): string {
  const head = Buffer.from(`${o.algorithm ?? "Ed"}${o.derivation ?? "\0\0"}B2`, "latin1");
  const bytes = Buffer.concat([head, Buffer.alloc(48), ID, seed, o.point ?? point, Buffer.alloc(32)]);
  return `untrusted comment: secret key\n${bytes.toString("base64")}\n`;
}

describe("signatures of minisign", () => {
  it("are of the hash of the content, and of signature and comment", () => {
    const content = Buffer.from("checksums");
    const [, first = "", comment, second = ""] = minisign(content, readSigningKey(keyFile()), "Sallyport 1.2.3").split(
      "\n",
    );
    const own = Buffer.from(first, "base64");
    expect(own.toString("latin1", 0, 2)).toBe("ED");
    expect(own.subarray(2, 10)).toEqual(ID);
    const key = createPublicKey(publicKey.export({ format: "pem", type: "spki" }));
    expect(verify(null, createHash("blake2b512").update(content).digest(), key, own.subarray(10))).toBe(true);
    expect(comment).toBe("trusted comment: Sallyport 1.2.3");
    const signed = Buffer.concat([own.subarray(10), Buffer.from("Sallyport 1.2.3")]);
    expect(verify(null, signed, key, Buffer.from(second, "base64"))).toBe(true);
  });

  it.each([
    ["of another kind", keyFile({ algorithm: "Xx" }), "expected a secret key of minisign"],
    ["that is no key", "-----BEGIN PRIVATE KEY-----\nabc\n", "expected a secret key of minisign"],
    ["with a password", keyFile({ derivation: "Sc" }), "encrypted with a password"],
    ["that is damaged", keyFile({ point: Buffer.alloc(32, 1) }), "damaged"],
  ])("need a key: a file %s is refused", (_, text, message) => {
    expect(() => readSigningKey(text)).toThrow(SigningKeyError);
    expect(() => readSigningKey(text)).toThrow(message);
  });
});
