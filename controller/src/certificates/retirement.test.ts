import { randomBytes } from "node:crypto";
import { commonName, fingerprint, silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { startTestController, type TestController } from "../api/testing/test-controller.ts";
import { SharedReplicas } from "../model/replica/shared-replicas.ts";
import { rotate } from "../pki/material.ts";
import { Pki } from "../pki/pki.ts";
import { DEFAULT_LIFETIMES } from "../pki/testing.ts";
import { KeyVault, Secrets } from "../store/secrets.ts";
import { CertificateUpkeep } from "./certificate-upkeep.ts";
import { changeNetworkKeys, requireNetworkKeys, saveNetworkKeys } from "./network-keys.ts";
import { replicasBehind } from "./replica-keys.ts";

const HOSTS = ["localhost"];

interface Process {
  readonly pki: Pki;
  readonly upkeep: CertificateUpkeep;
  stop(): Promise<void>;
}

let c: TestController;
let secrets: Secrets;
const processes: Process[] = [];
beforeEach(async () => {
  c = await startTestController();
  secrets = new Secrets(randomBytes(32));
  await saveNetworkKeys(new KeyVault(c.ctx.store.db, secrets), c.pki.material);
});
afterEach(async () => {
  for (const { stop } of processes.splice(0)) await stop();
  await c.close();
});

/** As a process starts, and goes on: it renews its certificates, and writes into the set which one it presents. */
async function start(id: string): Promise<Process> {
  const lifetimes = DEFAULT_LIFETIMES;
  const replica = id === "controller" ? undefined : { id, apiHost: "localhost", hosts: HOSTS };
  const pki = new Pki(c.pki.material, { lifetimes, replica });
  const { store } = c.ctx;
  const upkeep = new CertificateUpkeep({ pki, store, secrets, lifetimes, hosts: HOSTS, replica, log: silentLogger });
  await upkeep.renew();
  upkeep.start({ reissue: async () => 0 }, () => undefined);
  await upkeep.check();
  const own = () => ({
    ...{ id, apiAddress: `${id}:1280`, ctrlAddress: `tls:${id}:1280`, version: "v1", startedAt: new Date(0) },
    fingerprint: fingerprint(pki.certificateOf(id) ?? pki.networkCertificate),
  });
  const replicas = await SharedReplicas.start({ store, own, log: silentLogger });
  const stop = async () => {
    await replicas.close();
    await upkeep.stop();
  };
  const process = { pki, upkeep, stop };
  processes.push(process);
  return process;
}

const stored = () => requireNetworkKeys(new KeyVault(c.ctx.store.db, secrets));
const behind = async () => replicasBehind(c.ctx.store.db, secrets, await stored());
const rotated = () =>
  changeNetworkKeys(c.ctx.store, secrets, (material) =>
    rotate(material, { hosts: HOSTS, lifetimes: DEFAULT_LIFETIMES, now: new Date(), newKeys: false }),
  );
const isRetired = async () => (await stored()).former === undefined;

it("a former authority is trusted until every controller presents a certificate of the present one, also one that was stopped during the rotation", async () => {
  const one = await start("controller");
  const two = await start("c2");
  await two.stop();
  processes.pop();
  await rotated();
  await vi.waitFor(async () => expect(await behind()).toEqual(["c2"]), 20_000);
  await one.upkeep.check();
  expect(await isRetired()).toBe(false);
  expect(one.pki.trustAnchors).toHaveLength(4);
  const again = await start("c2");
  await vi.waitFor(async () => expect(await isRetired()).toBe(true), 20_000);
  expect(await behind()).toEqual([]);
  expect(commonName(again.pki.certificateOf("c2")!)).toBe("c2");
});

it("a controller that has been away for ten minutes is not waited for", async () => {
  await start("controller");
  const two = await start("c2");
  await two.stop();
  processes.pop();
  await rotated();
  await vi.waitFor(async () => expect(await behind()).toEqual(["c2"]), 20_000);
  await sql`UPDATE replica SET seen_at = now() - interval '11 minutes' WHERE id = 'c2'`.execute(c.ctx.store.db);
  expect(await behind()).toEqual([]);
});
