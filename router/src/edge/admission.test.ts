import { X509Certificate } from "node:crypto";
import { fingerprint } from "@sallyport/wire";
import { TestAuthority } from "@sallyport/wire/testing";
import { beforeAll, expect, test } from "vitest";
import type { AccessClaims } from "../access/ports.ts";
import { ClientRefusedError, checkCertificate, checkTokenCertificate } from "./admission.ts";

let ours: TestAuthority;
let theirs: TestAuthority;
const session = { id: "sess1", token: "t", identityId: "alice", certFingerprints: [] as string[] };

beforeAll(async () => {
  ours = await TestAuthority.create("ours");
  theirs = await TestAuthority.create("theirs");
});

async function leaf(authority: TestAuthority, uri?: string, dates: object = {}): Promise<X509Certificate> {
  const names = uri === undefined ? {} : { uri: [uri] };
  const { certPem } = await authority.issue({ commonName: "alice", ...names, ...dates });
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

const HOUR_MS = 3_600_000;
const expired = { notBefore: new Date(Date.now() - 2 * HOUR_MS), notAfter: new Date(Date.now() - HOUR_MS) };
const claims: AccessClaims = {
  ...{ token: "t", tokenId: "j", identityId: "alice", apiSessionId: "sess1", issuedAt: 0, endsAt: 0 },
  ...{ fingerprints: [], allowsExpiredCertificates: false },
};
const OF_IDENTITY = "spiffe://net/identity/alice";
const OF_SESSION = "spiffe://net/identity/alice/apiSession/sess1";

test.each<[string, { uri?: string; isTheirs?: true; isExpired?: true; isNamed?: true; allows?: true }, boolean]>([
  ["named by the token", { isNamed: true }, true],
  ["named by the token, of another CA", { isNamed: true, isTheirs: true }, true],
  ["named by the token, expired", { isNamed: true, isExpired: true }, false],
  ["named by the token, expired, and the token allows it", { isNamed: true, isExpired: true, allows: true }, true],
  ["with no name at all", {}, false],
  ["of the session", { uri: OF_SESSION }, true],
  ["of the session, by one of its certificates", { uri: `${OF_SESSION}/apiSessionCertificate/c1` }, true],
  ["of the session, expired", { uri: OF_SESSION, isExpired: true }, false],
  ["of the session, expired, which is never allowed", { uri: OF_SESSION, isExpired: true, allows: true }, false],
  ["of the session, of another CA", { uri: OF_SESSION, isTheirs: true }, false],
  ["of another session", { uri: "spiffe://net/identity/alice/apiSession/other" }, false],
  ["of a session of another identity", { uri: "spiffe://net/identity/bob/apiSession/sess1" }, false],
  ["of the identity", { uri: OF_IDENTITY }, true],
  ["of the identity, expired", { uri: OF_IDENTITY, isExpired: true }, false],
  ["of the identity, expired, and the token allows it", { uri: OF_IDENTITY, isExpired: true, allows: true }, true],
  ["of the identity, of another CA", { uri: OF_IDENTITY, isTheirs: true }, false],
  [
    "of the identity, of another CA, expired",
    { uri: OF_IDENTITY, isTheirs: true, isExpired: true, allows: true },
    false,
  ],
  ["of another identity", { uri: "spiffe://net/identity/bob" }, false],
  ["of the identity, deeper", { uri: "spiffe://net/x/identity/alice" }, false],
])("an access token with a certificate %s", async (_name, how, isAccepted) => {
  const certificate = await leaf(how.isTheirs ? theirs : ours, how.uri, how.isExpired ? expired : {});
  // Issuers of OpenZiti write it in lower case; the comparison does not depend on it.
  const fingerprints = how.isNamed ? [fingerprint(certificate).toUpperCase()] : [];
  const token = { ...claims, fingerprints, allowsExpiredCertificates: how.allows ?? false };
  const check = (): void => checkTokenCertificate(token, [certificate], anchors());
  if (isAccepted) check();
  else expect(check).toThrow(ClientRefusedError);
});

test("an access token counts for the leaf alone, and not without one", async () => {
  const [known, stranger] = [await leaf(ours), await leaf(ours)];
  const token = { ...claims, fingerprints: [fingerprint(known)] };
  expect(() => checkTokenCertificate(token, [stranger, known], anchors())).toThrow("does not belong to API session");
  expect(() => checkTokenCertificate(token, [], anchors())).toThrow("presented no certificate");
});
