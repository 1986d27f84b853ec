/** The few functions of sodium-native that the SDK uses; the package brings no declarations. */
declare module "sodium-native" {
  type DeriveKeys = (rx: Uint8Array, tx: Uint8Array, own: Uint8Array, secret: Uint8Array, peer: Uint8Array) => void;
  interface SodiumNative {
    crypto_secretstream_xchacha20poly1305_STATEBYTES: number;
    crypto_kx_keypair(publicKey: Uint8Array, secretKey: Uint8Array): void;
    crypto_kx_client_session_keys: DeriveKeys;
    crypto_kx_server_session_keys: DeriveKeys;
    crypto_secretstream_xchacha20poly1305_init_push(state: Uint8Array, header: Uint8Array, key: Uint8Array): void;
    crypto_secretstream_xchacha20poly1305_push(
      state: Uint8Array,
      cipher: Uint8Array,
      message: Uint8Array,
      additional: Uint8Array | null,
      tag: number,
    ): number;
    crypto_secretstream_xchacha20poly1305_init_pull(state: Uint8Array, header: Uint8Array, key: Uint8Array): void;
    crypto_secretstream_xchacha20poly1305_pull(
      state: Uint8Array,
      message: Uint8Array,
      tag: Uint8Array,
      cipher: Uint8Array,
      additional: Uint8Array | null,
    ): number;
  }
  const sodium: SodiumNative;
  // biome-ignore lint/style/noDefaultExport: the shape of the package
  export default sodium;
}
