import { Breath } from "./breath.ts";
import type { EncodedEvent } from "./events.ts";

/**
 * Puts encoded events together to the bodies of messages, without encoding any of them again.
 * Source: docs/protocol/data-model.md, "Messages".
 */

/** Events from this length on take as long to make as many others. */
const LONG_EVENT = 1_024;
const BATCH_BYTES = 64 * 1024;
const STATE_EVENT = 0x0a;
const STATE_END_INDEX = 0x10;
const STATE_TIMELINE = 0x1a;
const SET_INDEX = 0x08;
const SET_EVENT = 0x1a;

/** DataState: all events, the index they lead to, and the timeline. */
export async function encodeState(
  events: AsyncIterable<EncodedEvent>,
  index: bigint,
  timeline: string,
): Promise<Buffer> {
  const parts: Buffer[] = [];
  const breath = new Breath();
  let batch: EncodedEvent[] = [];
  let size = 0;
  for await (const event of events) {
    batch.push(event);
    size += event.length;
    const isTime = event.length > LONG_EVENT ? breath.isOver : breath.isDue;
    if (size < BATCH_BYTES && !isTime) continue;
    parts.push(fields(STATE_EVENT, batch));
    batch = [];
    size = 0;
    await breath.take();
  }
  parts.push(fields(STATE_EVENT, batch));
  parts.push(Buffer.of(STATE_END_INDEX), varint(index), fields(STATE_TIMELINE, [timeline]));
  return Buffer.concat(parts);
}

/** ChangeSet: what changed, and the index after it. */
export function encodeChangeSet(events: readonly EncodedEvent[], index: bigint): Buffer {
  return Buffer.concat([Buffer.of(SET_INDEX), varint(index), fields(SET_EVENT, events)]);
}

/** A request to compare a router's model with this one. `fix`: the router takes over what differs. */
export function encodeValidation(state: Buffer, fix: boolean): Buffer {
  return Buffer.concat([Buffer.of(0x0a), varint(BigInt(state.length)), state, ...(fix ? [Buffer.of(0x10, 1)] : [])]);
}

/** One length-delimited field for each text of bytes. */
function fields(tag: number, values: readonly string[]): Buffer {
  const out = Buffer.allocUnsafe(values.reduce((sum, value) => sum + value.length + 6, 0));
  let at = 0;
  for (const value of values) {
    out[at++] = tag;
    let length = value.length;
    while (length > 0x7f) {
      out[at++] = (length & 0x7f) | 0x80;
      length >>>= 7;
    }
    out[at++] = length;
    at += out.write(value, at, "latin1");
  }
  return out.subarray(0, at);
}

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Buffer.from(bytes);
}
