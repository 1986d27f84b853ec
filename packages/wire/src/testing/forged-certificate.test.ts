import { createPublicKey, X509Certificate } from "node:crypto";
import { expect, it } from "vitest";
import { ecKey, forgedCertificate, forgedRsaKey } from "./forged-certificate.ts";

it("has a forged signature that is computed with: a long exponent takes its time", () => {
  const forged = forgedCertificate({ subject: "leaf", issuer: "x", publicKey: ecKey(), signature: "rsa" });
  const certificate = new X509Certificate(forged);
  const leastCost = (exponentBits: number) => {
    const key = createPublicKey({ key: forgedRsaKey(3_072, exponentBits), format: "der", type: "spki" });
    const costs = Array.from({ length: 20 }, () => {
      const before = process.cpuUsage().user;
      expect(certificate.verify(key)).toBe(false);
      return process.cpuUsage().user - before;
    });
    return Math.min(...costs);
  };
  // It is about a hundred times as much.
  expect(leastCost(3_000)).toBeGreaterThan(10 * leastCost(16));
});
