import { createHmac, hkdfSync, randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { Secrets } from "../store/secrets.ts";
import { trustPage } from "./trust-page.ts";

describe("the page with the trust bundle", () => {
  const key = randomBytes(32);
  const page = trustPage(new Secrets(key), () => "-----BEGIN CERTIFICATE-----");
  const ask = (nonce: unknown) => page.handle({ query: { nonce }, peerCertificates: [] });

  it("proves by nonce and bundle that it has the key", async () => {
    const nonce = randomBytes(16).toString("hex");
    const { data } = JSON.parse((await ask(nonce))!.body);
    const derived = Buffer.from(hkdfSync("sha256", key, "", "sallyport trust bundle 1", 32));
    expect(data).toEqual({
      bundle: "-----BEGIN CERTIFICATE-----",
      proof: createHmac("sha256", derived).update(`${nonce}\n-----BEGIN CERTIFICATE-----`).digest("base64"),
    });
    const other = JSON.parse((await ask(randomBytes(16).toString("hex")))!.body);
    expect(other.data.proof).not.toBe(data.proof);
  });

  it.each([[undefined], ["short"], ["x".repeat(32)], ["A".repeat(32)], ["a".repeat(129)], [["a".repeat(32)]]])(
    "is not there for the nonce %j",
    async (nonce) => expect(await ask(nonce)).toBeUndefined(),
  );
});
