import type { BodySealer } from "@sallyport/wire";
import { EncryptionError } from "../errors.ts";
import {
  MESSAGE_OVERHEAD,
  type SessionKeys,
  type Sodium,
  STREAM_HEADER_BYTES,
  type StreamDecryptor,
  type StreamEncryptor,
} from "./sodium.ts";

/** Where messages are decrypted to when no handler keeps them: each is consumed before the next one of any connection. */
let scratch = Buffer.allocUnsafeSlow(96 * 1024);

/** Memory for `size` bytes that are consumed before the next call. */
export function scratchMemory(size: number): Buffer {
  if (size > scratch.length) scratch = Buffer.allocUnsafeSlow(size);
  return scratch.subarray(0, size);
}

/** The keys of an encrypted connection. */
export interface ConnectionKeys {
  readonly sodium: Sodium;
  readonly keys: SessionKeys;
}

/** Encryption of one connection, in place: from where the bytes lie to where they go (docs/protocol/edge.md "Encryption"). */
export class EndToEnd implements BodySealer {
  readonly overhead = MESSAGE_OVERHEAD;
  readonly #sodium: Sodium;
  readonly #receiveKey: Buffer;
  readonly #encryptor: StreamEncryptor;
  #decryptor: StreamDecryptor | undefined;

  constructor({ sodium, keys }: ConnectionKeys) {
    this.#sodium = sodium;
    this.#receiveKey = keys.receive;
    this.#encryptor = sodium.encryptor(keys.transmit);
  }

  /** The first message of our direction. */
  get header(): Buffer {
    return this.#encryptor.header;
  }

  seal(buffer: Buffer, start: number, end: number, target: Buffer, at: number): void {
    this.#encryptor.encrypt(buffer.subarray(start, end), target.subarray(at, at + end - start + MESSAGE_OVERHEAD));
  }

  /**
   * Decrypts a message. The first one is the other end's header, perhaps with a message behind it.
   *
   * @param memory gives memory for so many plain bytes; without it they are valid until the next message only
   * @returns the plain bytes; undefined when there were none
   * @throws EncryptionError `DECRYPTION_FAILED`
   */
  open(
    buffer: Buffer,
    from: number,
    end: number,
    memory: (size: number) => Buffer = scratchMemory,
  ): Buffer | undefined {
    let start = from;
    if (this.#decryptor === undefined) {
      if (end - start < STREAM_HEADER_BYTES) fail("expected the 24-byte header of an encrypted stream first");
      const header = Buffer.from(buffer.subarray(start, start + STREAM_HEADER_BYTES));
      this.#decryptor = this.#sodium.decryptor(this.#receiveKey, header);
      start += STREAM_HEADER_BYTES;
      // Some implementations join the header with the first message.
      if (start === end) return undefined;
    }
    const size = end - start - MESSAGE_OVERHEAD;
    if (size < 0) fail(`an encrypted message has at least ${MESSAGE_OVERHEAD} bytes`);
    const plain = memory(size);
    if (!this.#decryptor.decrypt(buffer.subarray(start, end), plain))
      fail("a message was changed, lost or repeated on its way");
    return plain.length === 0 ? undefined : plain;
  }
}

function fail(what: string): never {
  throw new EncryptionError("DECRYPTION_FAILED", `${what}; the connection is closed`);
}
