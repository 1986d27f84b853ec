import { randomBytes, X509Certificate } from "node:crypto";
import { commonName, fingerprint, silentLogger } from "@sallyport/wire";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { hostsOf, rotate } from "../pki/material.ts";
import { Pki } from "../pki/pki.ts";
import { DEFAULT_LIFETIMES } from "../pki/testing.ts";
import { KeyVault, Secrets } from "../store/secrets.ts";
import { CertificateUpkeep } from "./certificate-upkeep.ts";
import { changeNetworkKeys, saveNetworkKeys } from "./network-keys.ts";
import { loadReplicaKeys, removeAllReplicaKeys, removeReplicaKeys } from "./replica-keys.ts";

const SHARED = ["localhost", "127.0.0.1"];
const rotation = { hosts: SHARED, lifetimes: DEFAULT_LIFETIMES, now: new Date(), newKeys: false };

interface Process {
  readonly pki: Pki;
  readonly upkeep: CertificateUpkeep;
}

let c: TestController;
let secrets: Secrets;
let one: Process;
let two: Process;
const processes: Process[] = [];
beforeAll(async () => {
  c = await startTestController();
  secrets = new Secrets(randomBytes(32));
  await saveNetworkKeys(new KeyVault(c.ctx.store.db, secrets), c.pki.material);
  one = await start();
  two = await start("c2", "c2.example");
});
afterAll(async () => {
  for (const { upkeep } of processes) await upkeep.stop();
  await c.close();
});

/** As a process starts, and goes on. */
async function start(id?: string, host = ""): Promise<Process> {
  const lifetimes = DEFAULT_LIFETIMES;
  const replica = id === undefined ? undefined : { id, apiHost: host, hosts: [host, ...SHARED] };
  const pki = new Pki(c.pki.material, { lifetimes, replica });
  const { store } = c.ctx;
  const upkeep = new CertificateUpkeep({ pki, store, secrets, lifetimes, hosts: SHARED, replica, log: silentLogger });
  await upkeep.renew();
  upkeep.start({ reissue: async () => 0 }, () => undefined);
  await upkeep.check();
  processes.push({ pki, upkeep });
  return { pki, upkeep };
}

const stored = () => loadReplicaKeys(new KeyVault(c.ctx.store.db, secrets));

async function settled(): Promise<void> {
  for (let round = 0; round < 3; round++) {
    await c.ctx.store.changes.caughtUp();
    for (const { upkeep } of processes) await upkeep.check();
  }
}

describe("the keys of a replica", () => {
  it("are made at its first start, lie sealed beside the network's, and are used again", async () => {
    expect(two.pki.serverIdentity.id).toBe("c2");
    expect(one.pki.serverIdentity.id).toBe("controller");
    const [[id, keys] = []] = await stored();
    expect(id).toBe("c2");
    expect(hostsOf(keys!.server)).toEqual(["c2.example", ...SHARED]);
    const again = await start("c2", "c2.example");
    expect(again.pki.serverIdentity.leafFingerprint).toBe(two.pki.serverIdentity.leafFingerprint);
    expect((await stored()).size).toBe(1);
  });

  it("are known to every other process: those that run learn of a new one from the change log", async () => {
    await start("c3", "c3.example");
    await settled();
    for (const { pki } of [one, two]) {
      expect(commonName(pki.certificateOf("c3")!)).toBe("c3");
      expect(pki.replicaHosts).toEqual(expect.arrayContaining(["c2.example", "c3.example"]));
    }
  });

  it("follow a rotation: each replica has a certificate of the new authority, with its key", async () => {
    const before = await stored();
    await changeNetworkKeys(c.ctx.store, secrets, (material) => rotate(material, rotation));
    await settled();
    const after = await stored();
    const issuer = new X509Certificate(one.pki.material.intermediate.certPem);
    for (const id of ["c2", "c3"]) {
      const leaf = new X509Certificate(after.get(id)!.server.certPem);
      expect(leaf.checkIssued(issuer) && leaf.verify(issuer.publicKey)).toBe(true);
      expect(after.get(id)?.server.keyPem).toBe(before.get(id)?.server.keyPem);
      for (const { pki } of [one, two]) expect(fingerprint(pki.certificateOf(id)!)).toBe(fingerprint(leaf));
    }
    expect(two.pki.serverIdentity.anchors.some((anchor) => anchor.fingerprint === issuer.fingerprint)).toBe(true);
  });

  it("are replaced by each replica itself when all keys are", async () => {
    const before = await stored();
    await changeNetworkKeys(c.ctx.store, secrets, async (material, trx) => {
      await removeAllReplicaKeys(trx, secrets);
      return rotate(material, { ...rotation, newKeys: true });
    });
    await settled();
    const after = await stored();
    expect([...after.keys()]).toEqual(["c2", "c3"]);
    for (const [id, { server, client }] of after) {
      expect(server.keyPem).not.toBe(before.get(id)?.server.keyPem);
      expect(client.keyPem).not.toBe(before.get(id)?.client.keyPem);
      expect(fingerprint(one.pki.certificateOf(id)!)).toBe(fingerprint(server.certPem));
    }
  });

  it("end with a replica that is removed, and its hosts are free again", async () => {
    const three = processes.pop()!;
    await three.upkeep.stop();
    expect(three.pki.controllerId).toBe("c3");
    const { transaction } = c.ctx.store;
    expect(await transaction((trx) => removeReplicaKeys(trx, "c3"))).toBe(true);
    expect(await transaction((trx) => removeReplicaKeys(trx, "c3"))).toBe(false);
    await settled();
    expect([...(await stored()).keys()]).toEqual(["c2"]);
    for (const { pki } of [one, two]) {
      expect(pki.certificateOf("c3")).toBeUndefined();
      expect(pki.replicaHosts).not.toContain("c3.example");
    }
  });
});
