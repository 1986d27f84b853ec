/** Bytes of an X25519 key. */
export const KEY_BYTES = 32;
/** Bytes of the header that starts an encrypted stream. */
export const STREAM_HEADER_BYTES = 24;
/** Bytes by which an encrypted message is longer than its plain text. */
export const MESSAGE_OVERHEAD = 17;

/** An X25519 key pair. */
export interface KeyPair {
  readonly publicKey: Buffer;
  readonly secretKey: Buffer;
}

/** One key per direction. */
export interface SessionKeys {
  readonly receive: Buffer;
  readonly transmit: Buffer;
}

/** Encrypts one direction of a connection. */
export interface StreamEncryptor {
  /** What the other end needs before anything else. */
  readonly header: Buffer;
  /** Encrypts `plain` into `target`, which is exactly `MESSAGE_OVERHEAD` bytes longer. */
  encrypt(plain: Uint8Array, target: Uint8Array): void;
}

/** Decrypts one direction of a connection. */
export interface StreamDecryptor {
  /**
   * Decrypts `cipher` into `target`, which is exactly `MESSAGE_OVERHEAD` bytes shorter.
   *
   * @returns false when the bytes are not what the other end sent next
   */
  decrypt(cipher: Uint8Array, target: Uint8Array): boolean;
}

/** The part of libsodium that end-to-end encryption needs (docs/protocol/edge.md "Encryption"). */
export interface Sodium {
  /** `native` is several times faster than `wasm`. */
  readonly kind: "native" | "wasm";
  createKeyPair(): KeyPair;
  /** The dialer is the client, the host the server. */
  sessionKeys(role: "client" | "server", own: KeyPair, peerPublicKey: Uint8Array): SessionKeys;
  encryptor(key: Uint8Array): StreamEncryptor;
  decryptor(key: Uint8Array, header: Uint8Array): StreamDecryptor;
}
