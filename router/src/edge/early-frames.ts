import { type Channel, EdgeType, type FrameView, KeptFrame, type Underlay } from "@sallyport/wire";

/** An SDK that sends more than this before it is admitted is not one. */
const MAX_BYTES = 256 * 1024;

/**
 * What an SDK sends between the answer to its hello and its admission. Its connections are no longer read after the
 * first such frame, but what is in memory already, and what comes on connections that join meanwhile, must not be lost.
 */
export class EarlyFrames {
  readonly frames: FrameView[] = [];
  readonly #paused = new Set<Underlay>();
  #bytes = 0;

  constructor(channel: Channel) {
    for (const underlay of channel.underlays) this.#pause(underlay);
    channel.onFrame = (frame, underlay) => {
      if (frame.contentType < EdgeType.Connect) return false;
      this.#pause(underlay);
      const length = frame.end - frame.start;
      this.#bytes += length;
      if (this.#bytes > MAX_BYTES) channel.close(new Error("too much was sent before the channel was admitted"));
      else this.frames.push(new KeptFrame(length).copyOf(frame));
      return true;
    };
  }

  /** Has the connections read again. */
  resume(): void {
    for (const underlay of this.#paused) underlay.resume();
    this.#paused.clear();
  }

  #pause(underlay: Underlay): void {
    if (this.#paused.has(underlay)) return;
    this.#paused.add(underlay);
    underlay.pause();
  }
}
