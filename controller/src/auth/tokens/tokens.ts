import { OwnTokens } from "./own-tokens.ts";
import { RevokedTokens } from "./revoked-tokens.ts";
import { TokenIssuer } from "./token-issuer.ts";
import { TokenKeys, type TokenKeysOptions } from "./token-keys.ts";

/** All that signs or checks tokens of this network. */
export interface Tokens {
  readonly keys: TokenKeys;
  readonly issuer: TokenIssuer;
  readonly own: OwnTokens;
  readonly revoked: RevokedTokens;
}

/** Loads the keys and what is revoked, and follows both. */
export async function startTokens(
  options: TokenKeysOptions & { readonly apiAddress: string },
): Promise<Tokens & { close(): void }> {
  const { store, now } = options;
  const keys = new TokenKeys(options);
  const revoked = new RevokedTokens({ store, now });
  await keys.start();
  await revoked.start();
  return {
    keys,
    issuer: new TokenIssuer({ ...options, keys }),
    own: new OwnTokens({ keys, now }),
    revoked,
    close() {
      revoked.close();
      keys.close();
    },
  };
}
