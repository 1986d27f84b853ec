import { verify, X509Certificate } from "node:crypto";
import { fingerprint, splitPem, x509 } from "@sallyport/wire";
import { expect, it } from "vitest";
import { ThirdParty } from "../auth/testing/third-party.ts";
import { createPkiMaterial } from "./material.ts";
import { Pki } from "./pki.ts";
import { DEFAULT_LIFETIMES } from "./testing.ts";

it.each([
  ["ec", "ES256", "sha256"],
  ["rsa", "RS256", "sha256"],
] as const)(
  "a certificate of the operator's signs tokens and widens what clients trust, nothing else (%s)",
  async (key, alg, hash) => {
    const pki = new Pki(
      await createPkiMaterial({ lifetimes: DEFAULT_LIFETIMES, controllerId: "controller", hosts: ["localhost"] }),
      { lifetimes: DEFAULT_LIFETIMES },
    );
    const [own, anchors, bundle] = [pki.jwtSigner, pki.trustAnchors, pki.caBundlePem];
    const authority = await ThirdParty.create("Public");
    const certificate = await authority.issue({ commonName: "api", dns: ["api.example"], key });
    pki.serveApiWith({ signer: certificate, authorities: [authority.certPem] });

    expect(pki.jwtSigner).toBe(fingerprint(certificate.certPem));
    const [header = "", claims = "", signature = ""] = pki.signJwt({ sub: "x" }).split(".");
    expect(JSON.parse(Buffer.from(header, "base64url").toString())).toEqual({ alg, typ: "JWT", kid: pki.jwtSigner });
    const publicKey = new X509Certificate(certificate.certPem).publicKey;
    const signed = Buffer.from(`${header}.${claims}`);
    const options = { key: publicKey, dsaEncoding: "ieee-p1363" as const };
    expect(verify(hash, signed, options, Buffer.from(signature, "base64url"))).toBe(true);

    const served = new x509.X509Certificates(Buffer.from(pki.caBundlePkcs7Base64(), "base64"));
    expect(new Set(served.map((one) => fingerprint(one.toString("pem"))))).toEqual(
      new Set([...splitPem(bundle), authority.certPem].map((pem) => fingerprint(pem))),
    );
    expect(splitPem(pki.clientBundlePem)).toHaveLength(3);
    expect(pki.trustAnchors).toEqual(anchors);
    expect(pki.caBundlePem).toBe(bundle);

    // A renewal of the network's own certificates changes nothing about that.
    pki.adopt(pki.material);
    expect(pki.jwtSigner).toBe(fingerprint(certificate.certPem));
    pki.serveApiWith({ authorities: [] });
    expect(pki.jwtSigner).toBe(own);
    expect(pki.clientBundlePem).toBe(bundle);
  },
);
