/**
 * Where frames for one connection are written: straight into memory that is handed to the socket once per event-loop
 * turn (docs/protocol/channel.md, "Sending").
 *
 * `reserve(n)` commits: write the whole frame at the returned offset of `slab` before anything else runs (no `await`, no
 * other `reserve` in between), and read `slab` after `reserve`, which may have changed it.
 */
export interface Output {
  /** Offset in `slab` where `n` bytes may be written now. @throws ChannelClosedError when the connection is closed */
  reserve(n: number): number;
  readonly slab: Buffer;
  /** The next sequence number of the channel, for the frame about to be written. */
  nextSequence(): number;
  /** Bytes reserved and not yet taken by the kernel. */
  readonly pending: number;
  /** More is pending than a sender should add to. `reserve` still works: the caller pauses its source and waits for `onDrain`. */
  readonly isFull: boolean;
  /** Calls `cb` once, as soon as the output is no longer full, or is closed. */
  onDrain(cb: () => void): void;
  /** Calls `cb` once, as soon as the kernel has taken everything reserved until now, or the connection is closed. */
  whenTaken(cb: () => void): void;
}
