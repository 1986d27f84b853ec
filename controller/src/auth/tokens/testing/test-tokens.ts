import { randomBytes } from "node:crypto";
import { silentLogger } from "@sallyport/wire";
import { createPkiMaterial } from "../../../pki/material.ts";
import { Pki } from "../../../pki/pki.ts";
import { DEFAULT_LIFETIMES } from "../../../pki/testing.ts";
import { Secrets } from "../../../store/secrets.ts";
import type { TokenKeysOptions, TokenStore } from "../token-keys.ts";
import { startTokens } from "../tokens.ts";

export const TEST_LIVES = {
  accessMs: 30 * 60_000,
  idMs: 30 * 60_000,
  refreshMs: 24 * 60 * 60_000,
  keyMs: 90 * 86_400_000,
};

/** What a controller makes its keys with. */
export async function testKeyOptions(
  store: TokenStore,
  options: Partial<TokenKeysOptions> & { readonly keyType?: "ec" | "rsa" } = {},
): Promise<TokenKeysOptions> {
  const { keyType = "ec", ...rest } = options;
  const material = await createPkiMaterial({
    lifetimes: DEFAULT_LIFETIMES,
    controllerId: "controller",
    hosts: ["localhost"],
    serverKeyType: keyType,
  });
  const pki = new Pki(material, { lifetimes: DEFAULT_LIFETIMES });
  const secrets = new Secrets(randomBytes(32));
  return { store, pki, secrets, lives: TEST_LIVES, now: () => new Date(), log: silentLogger, ...rest };
}

/** Real keys in the store, and all that uses them. */
export async function testTokens(store: TokenStore, options: Partial<TokenKeysOptions> = {}) {
  return startTokens({ ...(await testKeyOptions(store, options)), apiAddress: "ctrl.example:1280" });
}
