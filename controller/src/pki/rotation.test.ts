import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { connect, createServer } from "node:tls";
import { createCsr, createKeyPair, spiffeId, splitPem, verifyLeaf } from "@sallyport/wire";
import { jwtVerify } from "jose";
import { beforeAll, describe, expect, it } from "vitest";
import { ThirdParty } from "../auth/testing/third-party.ts";
import { createPkiMaterial, type PkiMaterial, retire, rotate } from "./material.ts";
import { Pki } from "./pki.ts";
import { DEFAULT_LIFETIMES } from "./testing.ts";

const HOSTS = ["localhost", "127.0.0.1"];
const rotation = () => ({ hosts: HOSTS, lifetimes: DEFAULT_LIFETIMES, now: new Date(), newKeys: false });
const bundle = (material: PkiMaterial) => new Pki(material, { lifetimes: DEFAULT_LIFETIMES }).caBundlePem;

let before: PkiMaterial;
let during: PkiMaterial;
let csr: string;
beforeAll(async () => {
  before = await createPkiMaterial({ lifetimes: DEFAULT_LIFETIMES, controllerId: "controller", hosts: HOSTS });
  during = await rotate(before, rotation());
  csr = await createCsr({ commonName: "client", keyPem: (await createKeyPair()).keyPem });
});

/** By our own rules, from the leaf, with nothing but what is presented. */
function isTrusted(chainPem: string, bundlePem: string): boolean {
  const [leaf, ...intermediates] = splitPem(chainPem).map((pem) => new X509Certificate(pem));
  try {
    verifyLeaf({ leaf: leaf!, intermediates, anchors: splitPem(bundlePem).map((pem) => new X509Certificate(pem)) });
    return true;
  } catch {
    return false;
  }
}

/** By OpenSSL, as Node and the C SDKs do it: `certPem` presents itself as a server to a client with this bundle. */
async function serves(material: PkiMaterial, bundlePem: string): Promise<boolean> {
  const { certPem, keyPem } = material.server;
  const server = createServer({ cert: certPem, key: keyPem });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const socket = connect({
    port,
    host: "127.0.0.1",
    servername: "localhost",
    ca: bundlePem,
    rejectUnauthorized: false,
  });
  try {
    await once(socket, "secureConnect");
    return socket.authorized;
  } finally {
    socket.destroy();
    server.close();
  }
}

describe("rotation", () => {
  it("trusts both authorities, and is trusted by who knows only one of them", async () => {
    const [oldBundle, newBundle] = [bundle(before), bundle(during)];
    expect(splitPem(newBundle)).toHaveLength(4);
    for (const pem of splitPem(oldBundle)) expect(newBundle).toContain(pem);
    const old = await new Pki(before, { lifetimes: DEFAULT_LIFETIMES }).issueIdentityCertificate(csr);
    const fresh = await new Pki(during, { lifetimes: DEFAULT_LIFETIMES }).issueIdentityCertificate(csr);
    const onlyNew = bundle(retire(during, true, new Date()));
    expect(splitPem(onlyNew)).toHaveLength(2);
    for (const [chain, known, expected] of [
      [old.pem, oldBundle, true],
      [old.pem, newBundle, true],
      [old.pem, onlyNew, false],
      [fresh.pem, oldBundle, true],
      [fresh.pem, newBundle, true],
      [fresh.pem, onlyNew, true],
    ] as const) {
      expect(isTrusted(chain, known)).toBe(expected);
    }
    for (const known of [oldBundle, newBundle, onlyNew]) expect(await serves(during, known)).toBe(true);
    expect(await serves(before, newBundle)).toBe(true);
  });

  it("keeps the controller's name, trust domain and keys; new keys are made when asked for", async () => {
    const [one, two] = [
      new Pki(before, { lifetimes: DEFAULT_LIFETIMES }),
      new Pki(during, { lifetimes: DEFAULT_LIFETIMES }),
    ];
    expect(two.controllerId).toBe(one.controllerId);
    expect(spiffeId(two.serverIdentity.leaf)).toBe(spiffeId(one.serverIdentity.leaf));
    expect(during.server.keyPem).toBe(before.server.keyPem);
    const replaced = await rotate(before, { ...rotation(), newKeys: true });
    expect(replaced.server.keyPem).not.toBe(before.server.keyPem);
    expect(replaced.controller.keyPem).not.toBe(before.controller.keyPem);
    // The former authority can sign nothing more.
    expect(JSON.stringify(replaced)).not.toContain(JSON.stringify(before.root.keyPem).slice(40, 120));
    expect(JSON.stringify(replaced)).not.toContain(JSON.stringify(before.intermediate.keyPem).slice(40, 120));
  });

  it("is retired softly: who still knows only the former root follows us as before", async () => {
    const soft = retire(during, true, new Date());
    const fresh = await new Pki(soft, { lifetimes: DEFAULT_LIFETIMES }).issueIdentityCertificate(csr);
    expect(isTrusted(fresh.pem, bundle(before))).toBe(true);
    expect(await serves(soft, bundle(before))).toBe(true);
    const hard = retire(during, false, new Date());
    expect(hard.bridgePem).toBeUndefined();
    expect(await serves(hard, bundle(before))).toBe(false);
    expect(await serves(hard, bundle(hard))).toBe(true);
    expect(await serves(hard, hard.root.certPem)).toBe(true);
  });

  it("is finished before the next one begins", async () => {
    await expect(rotate(during, rotation())).rejects.toThrow(/finish that rotation first/);
    const again = await rotate(retire(during, true, new Date()), rotation());
    expect(await serves(again, bundle(during))).toBe(true);
  });

  it("renews the intermediate during a rotation without losing the bridge", async () => {
    const later = new Date(Date.now() + 3_650 * 86_400_000);
    const pki = new Pki(during, { lifetimes: DEFAULT_LIFETIMES, now: () => later });
    const renewed = await pki.renew(HOSTS);
    expect(renewed).toMatchObject({ bridgePem: during.bridgePem, former: during.former });
  });
});

describe("an authority of the operator's own", () => {
  const create = (certPem: string, keyPem: string) =>
    createPkiMaterial({
      lifetimes: DEFAULT_LIFETIMES,
      controllerId: "controller",
      hosts: HOSTS,
      imported: { certPem, keyPem },
    });

  it.each(["ec", "rsa"] as const)("is a root with its key (%s): an intermediate is made below it", async (key) => {
    const own = await ThirdParty.create("Own root", { key });
    const material = await create(own.certPem, own.keyPem);
    expect(await serves(material, own.certPem)).toBe(true);
    const issued = await new Pki(material, { lifetimes: DEFAULT_LIFETIMES }).issueIdentityCertificate(csr);
    expect(isTrusted(issued.pem, own.certPem)).toBe(true);
    const rotated = await rotate(material, rotation());
    expect(await serves(rotated, own.certPem)).toBe(true);
  });

  it("is an intermediate with its key and the chain up to a root whose key is elsewhere", async () => {
    const root = await ThirdParty.create("Own root");
    const middle = await ThirdParty.create("Own middle", { parent: root });
    const issuing = await ThirdParty.create("Own issuing", { parent: middle, key: "rsa" });
    const material = await create(issuing.certPem + middle.certPem + root.certPem, issuing.keyPem);
    expect(material.root).toEqual({ certPem: root.certPem });
    expect(await serves(material, root.certPem)).toBe(true);
    expect(splitPem(bundle(material))).toHaveLength(3);
    await expect(rotate(material, rotation())).rejects.toThrow(/key of the present root/);
    // A rotation to it from an authority of the network.
    const rotated = await rotate(before, {
      ...rotation(),
      imported: { certPem: issuing.certPem + middle.certPem + root.certPem, keyPem: issuing.keyPem },
    });
    expect(await serves(rotated, bundle(before))).toBe(true);
    expect(await serves(retire(rotated, false, new Date()), root.certPem)).toBe(true);
  });

  it("is refused with what does not fit", async () => {
    const root = await ThirdParty.create("Own root");
    const other = await ThirdParty.create("Other root");
    const below = await ThirdParty.create("Below", { parent: root });
    const leaf = await root.issue({ commonName: "leaf" });
    await expect(create(root.certPem, other.keyPem)).rejects.toThrow(/key does not belong/);
    await expect(create(leaf.certPem, leaf.keyPem)).rejects.toThrow(/not that of a CA/);
    await expect(create(below.certPem, below.keyPem)).rejects.toThrow(/must end with its root/);
    await expect(create(below.certPem + other.certPem, below.keyPem)).rejects.toThrow(/did not issue/);
    await expect(create("nothing", root.keyPem)).rejects.toThrow(/found none/);
  });
});

describe("a served key of RSA", () => {
  const algorithms = ({ controller, server }: PkiMaterial) =>
    [controller, server].map(({ certPem }) => new X509Certificate(certPem).publicKey.asymmetricKeyType);
  const sign = (material: PkiMaterial) => new Pki(material, { lifetimes: DEFAULT_LIFETIMES }).signJwt({ jti: "token" });
  const isSigned = async (material: PkiMaterial, token: string) => {
    const { publicKey } = new X509Certificate(material.server.certPem);
    return (await jwtVerify(token, publicKey, { algorithms: ["RS256"] })).payload.jti === "token";
  };

  it("signs enrollment tokens by RS256, serves, and outlives renewals and rotations, with new keys too", async () => {
    const made = await createPkiMaterial({
      lifetimes: DEFAULT_LIFETIMES,
      controllerId: "controller",
      hosts: HOSTS,
      serverKeyType: "rsa",
    });
    expect(algorithms(made)).toEqual(["ec", "rsa"]);
    const { server } = made;
    expect(new X509Certificate(server.certPem).publicKey.asymmetricKeyDetails?.modulusLength).toBe(2048);
    expect(await isSigned(made, sign(made))).toBe(true);
    expect(await serves(made, bundle(made))).toBe(true);

    const renewed = await new Pki(made, { lifetimes: DEFAULT_LIFETIMES }).renew(["another.example"]);
    expect(renewed?.server.certPem).not.toBe(server.certPem);
    expect(renewed?.server.keyPem).toBe(server.keyPem);

    const rotated = await rotate(made, rotation());
    expect(rotated.server.keyPem).toBe(server.keyPem);
    const withNewKeys = await rotate(made, { ...rotation(), newKeys: true });
    expect(withNewKeys.server.keyPem).not.toBe(server.keyPem);
    expect(algorithms(withNewKeys)).toEqual(["ec", "rsa"]);
    expect(await isSigned(withNewKeys, sign(withNewKeys))).toBe(true);
    expect(await serves(withNewKeys, bundle(made))).toBe(true);
  });
});
