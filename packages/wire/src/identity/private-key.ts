import { createPrivateKey, type KeyObject } from "node:crypto";
import { CertificateError } from "./certificates.ts";

/**
 * Reads a private key in PEM: SEC1, PKCS#1 or PKCS#8, not encrypted.
 *
 * @throws CertificateError `KEY_UNREADABLE`
 */
export function readPrivateKey(keyPem: string): KeyObject {
  try {
    return createPrivateKey(keyPem);
  } catch (cause) {
    throw new CertificateError(
      "KEY_UNREADABLE",
      "expected an unencrypted private key in PEM (EC PRIVATE KEY, RSA PRIVATE KEY or PRIVATE KEY)",
      { cause },
    );
  }
}
