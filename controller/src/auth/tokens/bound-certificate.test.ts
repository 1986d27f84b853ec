import { X509Certificate } from "node:crypto";
import { fingerprint } from "@sallyport/wire";
import { beforeAll, describe, expect, it } from "vitest";
import { ThirdParty } from "../testing/third-party.ts";
import { type BoundSession, isBoundTo } from "./bound-certificate.ts";

const SESSION = { id: "6a1b", identity_id: "i1", cert_allow_expired: false };
const now = new Date();
const later = new Date(Date.now() + 86_400_000);

let authority: ThirdParty;
let own: X509Certificate;
let other: X509Certificate;
beforeAll(async () => {
  authority = await ThirdParty.create("network");
  own = await leaf();
  other = await leaf();
});

async function leaf(...uris: string[]): Promise<X509Certificate> {
  return new X509Certificate((await authority.issue({ commonName: "client", uris })).certPem);
}

const printsOf = (issued: X509Certificate | undefined) => ({
  is_bound: true,
  cert_fingerprints: [fingerprint(own)],
  issued_fingerprints: issued === undefined || issued === other ? [] : [fingerprint(issued)],
});

const check = (
  certificate: X509Certificate | undefined,
  session: Partial<BoundSession> = {},
  { at = now, isOfNetwork = true } = {},
) =>
  isBoundTo({ ...SESSION, ...printsOf(certificate), ...session }, certificate, {
    at,
    isOfNetwork: () => isOfNetwork,
  });

describe("a token of a session", () => {
  it("that needs no certificate counts over every connection", () => {
    const free = { is_bound: false, cert_fingerprints: [] };
    for (const certificate of [undefined, other]) expect(check(certificate, free)).toBe(true);
  });

  it("that needs one counts over none when no certificate is left", () => {
    const none = { cert_fingerprints: [], issued_fingerprints: [] };
    for (const certificate of [undefined, own, other]) expect(check(certificate, none)).toBe(false);
  });

  it("with certificates counts with one of them only", () => {
    expect(check(own)).toBe(true);
    expect(check(own, { cert_fingerprints: ["another", fingerprint(own)] })).toBe(true);
    expect(check(other)).toBe(false);
    expect(check(undefined)).toBe(false);
  });

  it("outlives the dates of its certificate only where the auth policy says so", () => {
    expect(check(own, {}, { at: later })).toBe(false);
    expect(check(own, { cert_allow_expired: true }, { at: later })).toBe(true);
  });
});

describe("a certificate that names the session", () => {
  const PATH = "spiffe://net/identity/i1/apiSession/6a1b";
  it.each([
    [PATH, true],
    [`${PATH}/apiSessionCertificate/c`, true],
    ["SPIFFE://other.net/identity/i1/apiSession/6a1b", true],
    ["spiffe://net/identity/i1", false],
    ["spiffe://net/identity/i1/apiSession/", false],
    ["spiffe://net/identity/i1/apiSession/6a1c", false],
    ["spiffe://net/identity/i2/apiSession/6a1b", false],
    [`${PATH}/apiSessionCertificate`, false],
    [`${PATH}/other/c`, false],
    [`${PATH}/apiSessionCertificate/c/more`, false],
    [`${PATH}?x`, false],
    [`${PATH}/`, false],
    [`https://net/identity/i1/apiSession/6a1b`, false],
  ])("%s: %s", async (uri, counts) => {
    expect(check(await leaf(uri))).toBe(counts);
  });

  it("counts only when the network issued it, within its dates whatever the policy says, and with one name", async () => {
    const named = await leaf(PATH);
    expect(check(named, {}, { isOfNetwork: false })).toBe(false);
    // It was taken away.
    expect(check(named, { issued_fingerprints: [] })).toBe(false);
    expect(check(named, { cert_allow_expired: true }, { at: later })).toBe(false);
    expect(check(await leaf(PATH, "spiffe://net/identity/i1"))).toBe(false);
  });
});
