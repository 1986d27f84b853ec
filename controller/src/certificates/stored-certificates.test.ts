import { randomBytes } from "node:crypto";
import { createCsr, createKeyPair, silentLogger } from "@sallyport/wire";
import { sql } from "kysely";
import { expect, test } from "vitest";
import { startTestController } from "../api/testing/test-controller.ts";
import { DEFAULT_LIFETIMES } from "../pki/testing.ts";
import { KeyVault, Secrets } from "../store/secrets.ts";
import { CertificateUpkeep } from "./certificate-upkeep.ts";
import { saveNetworkKeys } from "./network-keys.ts";

test("routers that will get no other certificate, for a name of the controller, are told of at the start", async () => {
  const c = await startTestController();
  const { keyPem } = await createKeyPair();
  const ids: string[] = [];
  for (const name of ["edge.example.org", "*.example.org"]) {
    const routerId = await c.make("edge-routers", { name });
    ids.push(routerId);
    const csr = await createCsr({ commonName: routerId, keyPem, sans: { dns: [name] } });
    const { client } = await c.pki.issueRouterCertificates({ routerId, certCsr: csr, serverCertCsr: csr });
    await sql`UPDATE router SET cert_pem = ${client.pem} WHERE id = ${routerId}`.execute(c.ctx.store.db);
  }
  const host = "ctrl.example.org";
  const secrets = new Secrets(randomBytes(32));
  await saveNetworkKeys(new KeyVault(c.ctx.store.db, secrets), c.pki.material);
  const warned: unknown[] = [];
  const upkeep = new CertificateUpkeep({
    ...{ pki: c.pki, store: c.ctx.store, secrets, lifetimes: DEFAULT_LIFETIMES, hosts: [host] },
    log: { ...silentLogger, warn: (fields) => warned.push(fields) },
  });
  upkeep.start(c.model.enrollments, () => undefined);
  await expect.poll(() => warned).toEqual([{ routerId: ids[1], name: "*.example.org", host }]);
  await upkeep.stop();
  await c.close();
});
