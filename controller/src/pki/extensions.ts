import { isIP } from "node:net";
import { x509 } from "@sallyport/wire";

const { KeyUsageFlags, ExtendedKeyUsage } = x509;

const LEAF_USAGE = KeyUsageFlags.digitalSignature | KeyUsageFlags.keyEncipherment | KeyUsageFlags.dataEncipherment;
const CA_USAGE = KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign;

/** Not a CA; for TLS clients or servers (or both). */
export function leafExtensions(
  purposes: readonly ("client" | "server")[],
  names: readonly x509.JsonGeneralName[],
): x509.Extension[] {
  const usages = purposes.map((purpose) =>
    purpose === "client" ? ExtendedKeyUsage.clientAuth : ExtendedKeyUsage.serverAuth,
  );
  return [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(LEAF_USAGE, true),
    new x509.ExtendedKeyUsageExtension(usages),
    ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension([...names])] : []),
  ];
}

/** A certificate authority; `below` = how many authorities may stand between it and a leaf. */
export function authorityExtensions(spiffeId: string, below: number): x509.Extension[] {
  return [
    new x509.BasicConstraintsExtension(true, below, true),
    new x509.KeyUsagesExtension(CA_USAGE, true),
    new x509.SubjectAlternativeNameExtension([{ type: "url", value: spiffeId }]),
  ];
}

/** Host names and addresses as alternative names, each once. */
export function hostNames(hosts: readonly string[]): x509.JsonGeneralName[] {
  return [...new Set(hosts)].map(
    (value) => ({ type: isIP(value) === 0 ? "dns" : "ip", value }) as x509.JsonGeneralName,
  );
}
