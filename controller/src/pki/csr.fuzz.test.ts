import { generateKeyPairSync } from "node:crypto";
import { createCsr, createKeyPair, signingKeys, x509 } from "@sallyport/wire";
import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { CsrError } from "./issue.ts";
import { createPkiMaterial } from "./material.ts";
import { Pki } from "./pki.ts";
import { DEFAULT_LIFETIMES } from "./testing.ts";
import { ChainError, readThirdPartyCa } from "./third-party-ca.ts";

/** Others are tried with `SALLYPORT_FUZZ_SEED=1 npx vitest run …`. */
const SEED = Number(process.env.SALLYPORT_FUZZ_SEED ?? 20_261_122);

let pki: Pki;
let keyPem: string;
let certPem: string;
const requests: Buffer[] = [];
beforeAll(async () => {
  const material = await createPkiMaterial({
    lifetimes: DEFAULT_LIFETIMES,
    controllerId: "controller",
    hosts: ["localhost"],
  });
  pki = new Pki(material, { lifetimes: DEFAULT_LIFETIMES });
  certPem = material.root.certPem;
  keyPem = (await createKeyPair()).keyPem;
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs1", format: "pem" });
  const sans = { dns: ["a.example"], ip: ["10.0.0.1", "::1"], email: ["a@b.example"], uri: ["https://a.example/"] };
  for (const key of [keyPem, String(rsa)]) requests.push(der(await createCsr({ commonName: "r", keyPem: key, sans })));
});

const der = (pem: string) => Buffer.from(pem.replace(/-----[^-]+-----/g, ""), "base64");
const armored = (label: string, bytes: Uint8Array) =>
  `-----BEGIN ${label}-----\n${Buffer.from(bytes).toString("base64")}\n-----END ${label}-----\n`;

/** A certificate, or an error that becomes a 400; everything else is a fault of the controller. */
async function outcome(csr: string): Promise<string> {
  try {
    await pki.issueIdentityCertificate(csr);
    const both = await pki.issueRouterCertificates({ routerId: "r", certCsr: csr, serverCertCsr: csr });
    return both.server.fingerprint;
  } catch (error) {
    if (error instanceof CsrError) return error.code;
    throw error;
  }
}

/** A request signed by its own key, with whatever extension bytes. */
async function signedWith(names: Uint8Array, commonName = "r"): Promise<string> {
  const { pair, algorithm } = await signingKeys(keyPem);
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: new x509.Name([{ CN: [commonName] }]),
    keys: pair,
    signingAlgorithm: algorithm,
    extensions: [new x509.Extension("2.5.29.17", false, new Uint8Array(names))],
  });
  return request.toString("pem");
}

const name = (tag: number, bytes: readonly number[]) => [tag, bytes.length, ...bytes];
const sequence = (items: readonly number[]) => Uint8Array.from([0x30, items.length, ...items]);

describe("a request never gives anything but a certificate or a refusal", () => {
  it("whatever bits of it are changed", async () => {
    const change = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(fc.nat(1), change, fc.nat(), async (which, changes, cut) => {
        const bytes = Buffer.from(requests[which] ?? []);
        for (const [at, value] of changes) bytes[at % bytes.length] = value;
        const kept = cut % 5 === 0 ? bytes.subarray(0, cut % bytes.length) : bytes;
        await outcome(armored("CERTIFICATE REQUEST", kept));
      }),
      { numRuns: 300, seed: SEED },
    );
  });

  it.each([
    ["an IP address of 3 bytes", name(0x87, [10, 0, 0])],
    ["an IP address of 5 bytes", name(0x87, [10, 0, 0, 1, 1])],
    ["an IP address of 8 bytes, a network", name(0x87, [10, 0, 0, 0, 255, 0, 0, 0])],
    ["no IP address", name(0x87, [])],
    ["an empty host name", name(0x82, [])],
    ["a host name with NUL", name(0x82, [97, 0, 98])],
    ["a host name beyond ASCII", name(0x82, [0xc3, 0xa4])],
    ["a URI with a line feed", name(0x86, [104, 10, 105])],
    ["a directory name cut short", name(0xa4, [0x30, 0x20])],
    ["something that is no name", [0x05, 0x00]],
  ])("with %s", async (_what, item) => {
    const found = await outcome(await signedWith(sequence(item)));
    expect(found === "COULD_NOT_PROCESS_CSR" || /^[0-9a-f]{40}$/.test(found)).toBe(true);
  });

  it.each(["", "a\u0000b", "a\nb", "x".repeat(300), "😀", "#1500", "a,b+c=d"])(
    "with the common name %j",
    async (cn) => {
      await outcome(await signedWith(sequence(name(0x82, [97])), cn));
    },
  );

  it("with an IP address of the wrong length it is refused, not an internal error", async () => {
    const csr = await signedWith(sequence(name(0x87, [10, 0, 0])));
    await expect(
      pki.issueRouterCertificates({ routerId: "r", certCsr: csr, serverCertCsr: csr }),
    ).rejects.toMatchObject({
      code: "COULD_NOT_PROCESS_CSR",
    });
  });
});

it("the PEM of an authority never gives anything but an authority or a refusal", () => {
  const change = fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 4 });
  fc.assert(
    fc.property(change, fc.string(), (changes, junk) => {
      const bytes = der(certPem);
      for (const [at, value] of changes) bytes[at % bytes.length] = value;
      for (const text of [armored("CERTIFICATE", bytes), junk, junk + armored("CERTIFICATE", bytes) + junk]) {
        try {
          readThirdPartyCa(text);
        } catch (error) {
          if (!(error instanceof ChainError)) throw error;
        }
      }
    }),
    { numRuns: 300, seed: SEED },
  );
});
