import sodium from "sodium-native";
import { KEY_BYTES, type KeyPair, type Sodium, STREAM_HEADER_BYTES } from "./sodium.ts";

const MESSAGE_TAG = 0;

/** libsodium as a native module. */
export function nativeSodium(): Sodium {
  return {
    kind: "native",
    createKeyPair() {
      const pair: KeyPair = { publicKey: Buffer.alloc(KEY_BYTES), secretKey: Buffer.alloc(KEY_BYTES) };
      sodium.crypto_kx_keypair(pair.publicKey, pair.secretKey);
      return pair;
    },
    sessionKeys(role, own, peerPublicKey) {
      const keys = { receive: Buffer.alloc(KEY_BYTES), transmit: Buffer.alloc(KEY_BYTES) };
      const derive = role === "client" ? sodium.crypto_kx_client_session_keys : sodium.crypto_kx_server_session_keys;
      derive(keys.receive, keys.transmit, own.publicKey, own.secretKey, peerPublicKey);
      return keys;
    },
    encryptor(key) {
      const state = Buffer.alloc(sodium.crypto_secretstream_xchacha20poly1305_STATEBYTES);
      const header = Buffer.alloc(STREAM_HEADER_BYTES);
      sodium.crypto_secretstream_xchacha20poly1305_init_push(state, header, key);
      return {
        header,
        encrypt(plain, target) {
          sodium.crypto_secretstream_xchacha20poly1305_push(state, target, plain, null, MESSAGE_TAG);
        },
      };
    },
    decryptor(key, header) {
      const state = Buffer.alloc(sodium.crypto_secretstream_xchacha20poly1305_STATEBYTES);
      const tag = Buffer.alloc(1);
      sodium.crypto_secretstream_xchacha20poly1305_init_pull(state, header, key);
      return {
        decrypt(cipher, target) {
          try {
            sodium.crypto_secretstream_xchacha20poly1305_pull(state, target, tag, cipher, null);
            return true;
          } catch {
            // The library's only way to say that the authentication code is wrong.
            return false;
          }
        },
      };
    },
  };
}
