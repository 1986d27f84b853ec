import { AckView } from "../xgress/receive/acknowledgement.ts";

/** An acknowledgement as it was read from a frame. */
export function ackOf(sequences: readonly number[], o: { held?: number; rtt?: number } = {}): AckView {
  const view = new AckView();
  view.buffer = Buffer.alloc(4 * sequences.length);
  sequences.forEach((sequence, index) => {
    view.buffer.writeInt32BE(sequence, 4 * index);
  });
  view.count = sequences.length;
  view.receiveBufferSize = o.held ?? 0;
  view.rtt = o.rtt ?? 0;
  return view;
}
