import {
  type KeyPair,
  messageOverhead,
  type Sodium,
  type StreamDecryptor,
  type StreamEncryptor,
  streamHeaderBytes,
} from "@sallyport/sdk";
import type { BodySealer } from "@sallyport/wire";

/** Where messages are decrypted to; its bytes are consumed before the next one comes, whichever connection it is of. */
let scratch = Buffer.allocUnsafeSlow(96 * 1024);

/** A message was changed, lost or repeated on its way, or the other end does not encrypt as agreed. */
export class EndToEndError extends Error {
  override readonly name = "EndToEndError";
  readonly code = "DECRYPTION_FAILED";
}

/**
 * Encryption between the two ends of a circuit, of which this router is one (docs/protocol/edge.md, "Encryption"). The
 * dialling end is the client of the key exchange.
 */
export class EndToEnd implements BodySealer {
  readonly overhead = messageOverhead;
  readonly #sodium: Sodium;
  readonly #receiveKey: Buffer;
  readonly #encryptor: StreamEncryptor;
  #decryptor: StreamDecryptor | undefined;

  constructor(sodium: Sodium, role: "client" | "server", own: KeyPair, peerPublicKey: Buffer) {
    this.#sodium = sodium;
    const keys = sodium.sessionKeys(role, own, peerPublicKey);
    this.#receiveKey = keys.receive;
    this.#encryptor = sodium.encryptor(keys.transmit);
  }

  /** The first body of our direction. */
  get header(): Buffer {
    return this.#encryptor.header;
  }

  seal(buffer: Buffer, start: number, end: number, target: Buffer, at: number): void {
    this.#encryptor.encrypt(buffer.subarray(start, end), target.subarray(at, at + end - start + messageOverhead));
  }

  /**
   * Decrypts a body. The first one is the other end's header, perhaps with a message behind it.
   *
   * @returns the plain bytes, in memory that is valid until the next call of any instance; empty when there were none
   * @throws EndToEndError
   */
  open(buffer: Buffer, start: number, end: number): Buffer {
    let at = start;
    if (this.#decryptor === undefined) {
      if (end - at < streamHeaderBytes)
        throw new EndToEndError("expected the 24-byte header of an encrypted stream first");
      const header = Buffer.from(buffer.subarray(at, at + streamHeaderBytes));
      this.#decryptor = this.#sodium.decryptor(this.#receiveKey, header);
      at += streamHeaderBytes;
      if (at === end) return scratch.subarray(0, 0);
    }
    const length = end - at - messageOverhead;
    if (length < 0) throw new EndToEndError(`an encrypted message has at least ${messageOverhead} bytes`);
    if (length > scratch.length) scratch = Buffer.allocUnsafeSlow(length);
    const plain = scratch.subarray(0, length);
    if (this.#decryptor.decrypt(buffer.subarray(at, end), plain)) return plain;
    throw new EndToEndError("a message was changed, lost or repeated on its way");
  }
}
