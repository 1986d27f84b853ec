import { type KeyObject, X509Certificate } from "node:crypto";
import type { PresentedCertificate } from "../socket/stream-socket.ts";
import { isUsableKey } from "./issuer-search.ts";

/** As many as a peer may present. */
const MAX_CERTIFICATES = 10;
/** OpenSSL needs no more than about a millisecond for a signature. Binary curves take three times as long. */
const QUICK_CURVES = new Set([
  "prime256v1",
  "secp384r1",
  "secp521r1",
  "secp256k1",
  "brainpoolP256r1",
  "brainpoolP384r1",
  "brainpoolP512r1",
]);

/** Whether a TLS handshake with this chain takes about as long as with the chains that are in use: OpenSSL verifies every signature in it. */
export function isOrdinaryChain(leaf: PresentedCertificate | undefined): boolean {
  let count = 0;
  for (let next = leaf; next !== undefined; next = next.issuerCertificate) {
    if (++count > MAX_CERTIFICATES || !hasQuickKey(next.raw)) return false;
  }
  return true;
}

function hasQuickKey(der: Buffer): boolean {
  try {
    const { publicKey } = new X509Certificate(der);
    return isUsableKey(publicKey) && isQuickCurve(publicKey);
  } catch {
    // Node reads the key only now.
    return false;
  }
}

function isQuickCurve({ asymmetricKeyDetails }: KeyObject): boolean {
  const curve = asymmetricKeyDetails?.namedCurve;
  return curve === undefined || QUICK_CURVES.has(curve);
}
