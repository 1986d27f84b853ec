import { X509Certificate } from "node:crypto";
import { fingerprint } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { beforeAll, expect, test } from "vitest";
import { ClientRefusedError, checkCertificate } from "./admission.ts";

let ours: TestAuthority;
let theirs: TestAuthority;
const session = { id: "sess1", token: "t", identityId: "alice", certFingerprints: [] as string[] };

beforeAll(async () => {
  ours = await TestAuthority.create("ours");
  theirs = await TestAuthority.create("theirs");
});

async function leaf(authority: TestAuthority, uri?: string): Promise<X509Certificate> {
  const { certPem } = await authority.issue({ commonName: "alice", ...(uri === undefined ? {} : { uri: [uri] }) });
  return new X509Certificate(certPem);
}

const anchors = (): X509Certificate[] => [new X509Certificate(ours.certPem)];

test("a certificate whose fingerprint the session names is accepted, whichever CA issued it", async () => {
  const certificate = await leaf(theirs);
  checkCertificate({ ...session, certFingerprints: [fingerprint(certificate)] }, [certificate], anchors());
});

test("GHSA-mrpr-756c-xm47: only the leaf counts: a known certificate behind an unknown one is filler", async () => {
  const known = await leaf(ours);
  const stranger = await leaf(ours);
  const record = { ...session, certFingerprints: [fingerprint(known)] };
  expect(() => checkCertificate(record, [stranger, known], anchors())).toThrow(ClientRefusedError);
});

test.each([
  ["spiffe://net/identity/alice/apiSession/sess1", true],
  ["spiffe://net/identity/alice/apiSession/sess1/apiSessionCertificate/c1", true],
  ["spiffe://net/identity/alice/apiSession/other", false],
  ["spiffe://net/identity/bob/apiSession/sess1", false],
  ["spiffe://net/identity/alice", false],
  ["spiffe://net/x/identity/alice/apiSession/sess1", false],
])("a certificate of our CA with the id %s: %s", async (uri, accepted) => {
  const certificate = await leaf(ours, uri);
  const check = (): void => checkCertificate(session, [certificate], anchors());
  if (accepted) check();
  else expect(check).toThrow(ClientRefusedError);
});

test("an unknown CA cannot name a session", async () => {
  const certificate = await leaf(theirs, "spiffe://net/identity/alice/apiSession/sess1");
  expect(() => checkCertificate(session, [certificate], anchors())).toThrow("no CA of the network issued it");
});
