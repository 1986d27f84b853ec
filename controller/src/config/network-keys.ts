import { checkMaterial, type PkiMaterial } from "../pki/material.ts";
import type { KeyVault } from "../store/key-vault.ts";

const NAME = "pki";

/** The network's keys and certificates as `init` stored them; undefined before that. */
export async function loadNetworkKeys(vault: KeyVault): Promise<PkiMaterial | undefined> {
  const material = await vault.load<PkiMaterial>(NAME);
  return material === undefined ? undefined : checkMaterial(material);
}

export async function saveNetworkKeys(vault: KeyVault, material: PkiMaterial): Promise<void> {
  await vault.save(NAME, material);
}
