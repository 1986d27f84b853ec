import type { Underlay } from "../channel/channel.ts";
import type { FrameView } from "../frame/frame.ts";

/** Copies a frame into a connection's output and gives it the channel's next sequence; nothing else of it changes. */
export function writeFrame(frame: FrameView, underlay: Underlay): void {
  if (underlay.isClosed) return;
  const output = underlay.output;
  const at = output.reserve(frame.end - frame.start);
  const slab = output.slab;
  frame.buffer.copy(slab, at, frame.start, frame.end);
  slab.writeInt32LE(output.nextSequence(), at + 8);
}
