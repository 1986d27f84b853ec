/** Kept at most until somebody listens: datagrams, and their bytes. Further ones are lost, as on any network. */
const MOST = { datagrams: 64, bytes: 128 * 1024 };

/** Datagrams on their way to whoever listens. What comes before that is kept. */
export class DatagramInbox {
  #kept: Buffer[] = [];
  #keptBytes = 0;
  #listener: ((datagram: Buffer) => void) | undefined;

  /** Takes bytes that are valid during the call only. */
  take(datagram: Buffer): void {
    if (this.#listener !== undefined) {
      this.#listener(datagram);
      return;
    }
    if (this.#kept.length >= MOST.datagrams || this.#keptBytes + datagram.length > MOST.bytes) return;
    this.#kept.push(Buffer.from(datagram));
    this.#keptBytes += datagram.length;
  }

  /** From now on the listener gets every datagram, at once those that were kept; each is valid during the call only. */
  listen(listener: (datagram: Buffer) => void): void {
    const kept = this.#kept;
    this.clear();
    this.#listener = listener;
    for (const datagram of kept) listener(datagram);
  }

  /** Nobody will listen. */
  clear(): void {
    this.#kept = [];
    this.#keptBytes = 0;
  }
}
