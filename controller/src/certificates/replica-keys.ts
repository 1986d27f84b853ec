import { X509Certificate } from "node:crypto";
import { fingerprint } from "@sallyport/wire";
import { sql } from "kysely";
import type { Db, ModelStore } from "../model/context.ts";
import { presentReplicas } from "../model/replica/shared-replicas.ts";
import { leafOf } from "../pki/issue.ts";
import type { PkiMaterial } from "../pki/material.ts";
import { checkReplicaMaterial, type ReplicaMaterial } from "../pki/replica-material.ts";
import { appendChange } from "../store/changes/change-log.ts";
import { KeyVault, type Secrets } from "../store/secrets.ts";
import { changeNetworkKeys, NETWORK_KEYS_KIND } from "./network-keys.ts";

const PREFIX = "pki.replica.";

/** The keys and certificates of all replicas by id; those of the process that has the id of the network's controller are the network's. */
export async function loadReplicaKeys(vault: KeyVault): Promise<ReadonlyMap<string, ReplicaMaterial>> {
  const all = await vault.loadAll<ReplicaMaterial>(PREFIX);
  for (const [id, material] of all) checkReplicaMaterial(id, material);
  return all;
}

/**
 * Changes what is stored of one replica. Changes of the network's keys wait meanwhile, so what is issued is of the present authority.
 * @param change answers undefined to leave everything as it is
 * @returns what it made
 */
export async function changeReplicaKeys(
  store: Pick<ModelStore, "transaction">,
  secrets: Secrets,
  id: string,
  change: (network: PkiMaterial, own: ReplicaMaterial | undefined) => Promise<ReplicaMaterial | undefined>,
): Promise<ReplicaMaterial | undefined> {
  let changed: ReplicaMaterial | undefined;
  await changeNetworkKeys(store, secrets, async (network, trx) => {
    const vault = new KeyVault(trx, secrets);
    const own = await vault.load<ReplicaMaterial>(PREFIX + id);
    changed = await change(network, own && checkReplicaMaterial(id, own));
    if (changed === undefined) return undefined;
    await vault.save(PREFIX + id, changed);
    await appendChange(trx, { kind: NETWORK_KEYS_KIND, key: PREFIX + id, op: own === undefined ? "create" : "update" });
    return undefined;
  });
  return changed;
}

/** Forgets a replica that is no more: routers may get certificates for its hosts again. @returns whether it had keys */
export async function removeReplicaKeys(trx: Db, id: string): Promise<boolean> {
  const key = PREFIX + id;
  const { numAffectedRows } = await sql`DELETE FROM secret WHERE name = ${key}`.execute(trx);
  if (numAffectedRows !== 1n) return false;
  await appendChange(trx, { kind: NETWORK_KEYS_KIND, key, op: "delete" });
  return true;
}

/** Has every replica make new keys, as after the network's own were replaced. */
export async function removeAllReplicaKeys(trx: Db, secrets: Secrets): Promise<void> {
  for (const id of (await loadReplicaKeys(new KeyVault(trx, secrets))).keys()) await removeReplicaKeys(trx, id);
}

/**
 * Ids of the replicas that do not yet present a certificate of the present authority: of those that run, and of those that stopped within the last ten minutes.
 * One that has been away for longer gets its certificates when it starts.
 */
export async function replicasBehind(db: Db, secrets: Secrets, network: PkiMaterial): Promise<string[]> {
  const keys = await loadReplicaKeys(new KeyVault(db, secrets));
  const issuer = new X509Certificate(leafOf(network.intermediate.certPem));
  const isCurrent = (certPem: string, print: string) => {
    const leaf = new X509Certificate(leafOf(certPem));
    return fingerprint(leaf) === print && leaf.checkIssued(issuer) && leaf.verify(issuer.publicKey);
  };
  const behind = (await presentReplicas(db)).filter(({ id, fingerprint: print }) => {
    const { certPem } = keys.get(id)?.server ?? network.server;
    return !isCurrent(certPem, print);
  });
  return behind.map(({ id }) => id);
}
