import { sql } from "kysely";
import type { Db, ModelStore } from "../model/context.ts";
import { PkiError } from "../pki/issue.ts";
import { checkMaterial, type PkiMaterial } from "../pki/material.ts";
import { appendChange } from "../store/changes/change-log.ts";
import { KeyVault, type Secrets } from "../store/secrets.ts";

const NAME = "pki";

/** The kind under which the change log says that the keys were changed; a controller that runs takes them over. */
export const NETWORK_KEYS_KIND = "network_keys";

/** The network's keys and certificates as `init` stored them; undefined before that. */
export async function loadNetworkKeys(vault: KeyVault): Promise<PkiMaterial | undefined> {
  const material = await vault.load<PkiMaterial>(NAME);
  return material === undefined ? undefined : checkMaterial(material);
}

/** The same of a database that must hold a network. @throws PkiError when it does not */
export async function requireNetworkKeys(vault: KeyVault): Promise<PkiMaterial> {
  const material = await loadNetworkKeys(vault);
  if (material === undefined) {
    throw new PkiError("the database holds no network yet: run sallyport-controller init first");
  }
  return material;
}

export async function saveNetworkKeys(vault: KeyVault, material: PkiMaterial): Promise<void> {
  await vault.save(NAME, material);
}

/**
 * Changes what is stored, one change at a time: a controller that renews and a command beside it wait for each other.
 * @param change answers undefined to leave everything as it is
 * @returns what it made of the keys
 * @throws PkiError when there is no network yet
 */
export async function changeNetworkKeys(
  store: Pick<ModelStore, "transaction">,
  secrets: Secrets,
  change: (material: PkiMaterial, trx: Db) => Promise<PkiMaterial | undefined>,
): Promise<PkiMaterial | undefined> {
  return store.transaction(async (trx) => {
    await sql`SELECT FROM secret WHERE name = ${NAME} FOR UPDATE`.execute(trx);
    const vault = new KeyVault(trx, secrets);
    const material = await requireNetworkKeys(vault);
    const changed = await change(material, trx);
    if (changed === undefined) return undefined;
    await saveNetworkKeys(vault, changed);
    await appendChange(trx, { kind: NETWORK_KEYS_KIND, key: NAME, op: "update" });
    return changed;
  });
}
