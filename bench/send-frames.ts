import type { Channel } from "@sallyport/wire";

/** Sends `one` again and again, as fast as the channel takes it, until so many bytes are sent. */
export function sendFrames(channel: Channel, one: Buffer, bytes: number): void {
  const { output } = channel.underlayFor(0);
  let left = bytes;
  const more = (): void => {
    while (left > 0) {
      left -= one.length;
      const at = output.reserve(one.length);
      one.copy(output.slab, at);
      if (output.isFull) {
        output.onDrain(more);
        return;
      }
    }
  };
  more();
}
