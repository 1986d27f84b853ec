import sodium from "libsodium-wrappers";
import type { KeyPair, Sodium } from "./sodium.ts";

const MESSAGE_TAG = 0;

/** libsodium compiled to WebAssembly. */
export async function wasmSodium(): Promise<Sodium> {
  await sodium.ready;
  return {
    kind: "wasm",
    createKeyPair(): KeyPair {
      const pair = sodium.crypto_kx_keypair();
      return { publicKey: Buffer.from(pair.publicKey), secretKey: Buffer.from(pair.privateKey) };
    },
    sessionKeys(role, own, peerPublicKey) {
      const derive = role === "client" ? sodium.crypto_kx_client_session_keys : sodium.crypto_kx_server_session_keys;
      const keys = derive(own.publicKey, own.secretKey, peerPublicKey);
      return { receive: Buffer.from(keys.sharedRx), transmit: Buffer.from(keys.sharedTx) };
    },
    encryptor(key) {
      const { state, header } = sodium.crypto_secretstream_xchacha20poly1305_init_push(key);
      return {
        header: Buffer.from(header),
        encrypt(plain, target) {
          target.set(sodium.crypto_secretstream_xchacha20poly1305_push(state, plain, null, MESSAGE_TAG));
        },
      };
    },
    decryptor(key, header) {
      const state = sodium.crypto_secretstream_xchacha20poly1305_init_pull(header, key);
      return {
        decrypt(cipher, target) {
          const result: { message: Uint8Array } | false = sodium.crypto_secretstream_xchacha20poly1305_pull(
            state,
            cipher,
            null,
          );
          if (result === false) return false;
          target.set(result.message);
          return true;
        },
      };
    },
  };
}
