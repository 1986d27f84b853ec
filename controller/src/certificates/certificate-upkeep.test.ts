import { randomBytes, X509Certificate } from "node:crypto";
import { createCsr, createKeyPair, silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { type PkiMaterial, rotate } from "../pki/material.ts";
import { Pki } from "../pki/pki.ts";
import { DEFAULT_LIFETIMES } from "../pki/testing.ts";
import type { ChangeSubscriber } from "../store/changes/change-log.ts";
import type { Store } from "../store/database.ts";
import { KeyVault, Secrets } from "../store/secrets.ts";
import { interposed } from "../store/testing/test-store.ts";
import { CertificateUpkeep } from "./certificate-upkeep.ts";
import { changeNetworkKeys, saveNetworkKeys } from "./network-keys.ts";

const HOSTS = ["localhost", "127.0.0.1"];
const INVITED = 250;

let c: TestController;
let secrets: Secrets;
let upkeep: CertificateUpkeep;
const served: string[] = [];
beforeAll(async () => {
  c = await startTestController();
  secrets = new Secrets(randomBytes(32));
  await saveNetworkKeys(new KeyVault(c.ctx.store.db, secrets), c.pki.material);
  upkeep = new CertificateUpkeep({
    pki: c.pki,
    store: c.ctx.store,
    secrets,
    lifetimes: DEFAULT_LIFETIMES,
    hosts: HOSTS,
    log: silentLogger,
  });
  upkeep.start(c.model.enrollments, () => {
    served.push(c.pki.serverIdentity.leafFingerprint);
    c.serve(c.pki.serverIdentity);
  });
  await upkeep.check();
});
afterAll(async () => {
  await upkeep.stop();
  await c.close();
});

const change = (work: (material: PkiMaterial) => Promise<PkiMaterial | undefined>) =>
  changeNetworkKeys(c.ctx.store, secrets, work);
const rotation = { hosts: HOSTS, lifetimes: DEFAULT_LIFETIMES, now: new Date(), newKeys: true };
const kid = (jwt: string) => JSON.parse(Buffer.from(jwt.split(".")[0] ?? "", "base64url").toString()).kid;
const claims = (jwt: string) => JSON.parse(Buffer.from(jwt.split(".")[1] ?? "", "base64url").toString());

describe("when the served certificate changes", () => {
  it("outstanding tokens of identities and routers are signed again; they stay the same tokens, for as long", async () => {
    const names = Array.from({ length: INVITED }, (_, i) => `invited ${i}`);
    const invite = (name: string) =>
      c.make("identities", { name, type: "Device", isAdmin: false, enrollment: { ott: true } });
    for (let at = 0; at < INVITED; at += 10) await Promise.all(names.slice(at, at + 10).map(invite));
    const router = await c.make("edge-routers", { name: "invited" });
    const list = async () => (await c.admin("GET", "/enrollments?limit=-1&sort=id")).json.data;
    const before = await list();
    expect(before).toHaveLength(INVITED + 1);
    const old = c.pki.jwtSigner;
    expect(new Set(before.map(({ jwt }: { jwt: string }) => kid(jwt)))).toEqual(new Set([old]));

    // By another process: the change log tells this one.
    await change((material) => rotate(material, rotation));
    await c.ctx.store.changes.caughtUp();
    await upkeep.check();
    expect(c.pki.jwtSigner).not.toBe(old);
    const after = await list();
    expect(new Set(after.map(({ jwt }: { jwt: string }) => kid(jwt)))).toEqual(new Set([c.pki.jwtSigner]));
    for (const [i, { id, token, expiresAt, jwt }] of after.entries()) {
      expect({ id, token, expiresAt }).toEqual({
        id: before[i].id,
        token: before[i].token,
        expiresAt: before[i].expiresAt,
      });
      expect(claims(jwt)).toEqual(claims(before[i].jwt));
    }
    expect(kid((await c.admin("GET", `/edge-routers/${router}`)).json.data.enrollmentJwt)).toBe(c.pki.jwtSigner);
  }, 120_000);
});

it("changed keys that could not be read at first are taken over soon after", async () => {
  let reader: ChangeSubscriber | undefined;
  let isFailing = false;
  const taken = Promise.withResolvers<void>();
  const db = interposed(c.ctx.store as Store, (_text, run) => {
    if (!isFailing) return run();
    isFailing = false;
    return Promise.reject(new Error("the database cannot be used now"));
  });
  const pki = new Pki(c.pki.material, { lifetimes: DEFAULT_LIFETIMES });
  const other = new CertificateUpkeep({
    ...{ pki, secrets, lifetimes: DEFAULT_LIFETIMES, hosts: HOSTS, log: silentLogger },
    store: {
      db,
      transaction: c.ctx.store.transaction,
      changes: {
        subscribe: (subscriber) => {
          reader = subscriber;
          return () => undefined;
        },
      },
    },
  });
  other.start({ reissue: async () => 0 }, () => taken.resolve());
  await other.check();
  await change((material) => rotate(material, rotation));
  isFailing = true;
  await reader?.onReset("");
  await taken.promise;
  expect(isFailing).toBe(false);
  expect(pki.material.root.certPem).toBe((await new KeyVault(db, secrets).load<PkiMaterial>("pki"))?.root.certPem);
  await other.stop();
  await c.ctx.store.changes.caughtUp();
  await upkeep.check();
});

describe("the former authority", () => {
  it("stays trusted while a certificate of it is in use, and no longer", async () => {
    // Two generations: the one of the test before is retired, as nothing of it is in use.
    await upkeep.check();
    expect(c.pki.trustAnchors).toHaveLength(2);
    const { keyPem } = await createKeyPair();
    const identityId = await c.make("identities", {
      name: "holder",
      type: "Device",
      isAdmin: false,
      enrollment: { ott: true },
    });
    const [{ token }] = (await c.admin("GET", `/identities/${identityId}/enrollments`)).json.data;
    const clientCsr = await createCsr({ commonName: "x", keyPem });
    const enrolled = await c.call("POST", `/edge/client/v1/enroll?token=${token}`, { body: { clientCsr } });
    const certPem: string = enrolled.json.data.cert;
    const login = async (cert: string) =>
      (await c.call("POST", "/edge/client/v1/authenticate?method=cert", { body: {}, cert, key: keyPem })).json;

    const former = c.pki.material;
    await change((material) => rotate(material, { ...rotation, newKeys: false }));
    await c.ctx.store.changes.caughtUp();
    await upkeep.check();
    expect(c.pki.trustAnchors).toHaveLength(4);
    const session = (await login(certPem)).data;
    expect(session.identityId).toBe(identityId);

    const [{ id }] = (await c.admin("GET", `/identities/${identityId}/authenticators`)).json.data;
    const call = (action: string, body: object) =>
      c.call("POST", `/edge/client/v1/current-identity/authenticators/${id}/${action}`, {
        ...{ token: session.token, body, cert: certPem, key: keyPem },
      });
    const extended = await call("extend", { clientCertCsr: clientCsr });
    expect((await call("extend-verify", { clientCert: extended.json.data.clientCert })).status).toBe(200);
    await upkeep.check();
    expect(c.pki.trustAnchors).toHaveLength(2);
    expect(c.pki.caBundlePem).not.toContain(former.root.certPem);
    expect((await login(extended.json.data.clientCert)).data.identityId).toBe(identityId);
    // The keys in the store are those that are used.
    const next = new KeyVault(c.ctx.store.db, secrets);
    expect(await next.load("pki")).toEqual(c.pki.material);
  });

  it("is in the bundle that clients and routers get during a rotation, each certificate once", async () => {
    await change((material) => rotate(material, { ...rotation, newKeys: false }));
    await c.ctx.store.changes.caughtUp();
    await upkeep.check();
    const expected = c.pki.trustAnchors.map(({ fingerprint256 }) => fingerprint256);
    expect(new Set(expected).size).toBe(expected.length);
    const { x509 } = await import("@sallyport/wire");
    for (const path of ["/.well-known/est/cacerts", "/edge/management/v1/.well-known/est/cacerts"]) {
      const answer = await c.call("GET", path);
      expect(answer.headers).toMatchObject({
        "content-type": "application/pkcs7-mime",
        "content-transfer-encoding": "base64",
      });
      const lines = answer.text.split("\n");
      expect(lines.slice(0, -1).every((line) => line.length === 64)).toBe(true);
      const bundle = new x509.X509Certificates(Buffer.from(answer.text, "base64"));
      const found = bundle.map((each) => new X509Certificate(Buffer.from(each.rawData)).fingerprint256);
      expect(found.sort()).toEqual([...expected].sort());
    }
    expect(served.at(-1)).toBe(c.pki.serverIdentity.leafFingerprint);
  });
});
