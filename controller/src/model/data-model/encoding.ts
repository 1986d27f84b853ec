import { TimeSlice } from "@sallyport/async";
import type { DataModelState } from "../../fabric/data-model/data-model-source.ts";
import type { EncodedEvent } from "./events.ts";

/**
 * Puts encoded events together to the bodies of messages, without encoding any of them again.
 * Source: docs/protocol/data-model.md, "Messages".
 */

/** Events from this length on take as long to make as many others. */
const LONG_EVENT = 1_024;
/** Beside a router's heartbeats, on a slow line, nothing must take longer than a few seconds: what exceeds this goes out in parts. */
export const MAX_STATE_BYTES = 4 * 1024 * 1024;
const PART_BYTES = 512 * 1024;
const BATCH_BYTES = 64 * 1024;
const STATE_EVENT = 0x0a;
const STATE_END_INDEX = 0x10;
const STATE_TIMELINE = 0x1a;
const SET_INDEX = 0x08;
const SET_SYNTHETIC = 0x10;
const SET_EVENT = 0x1a;

/**
 * A state: all events, the index they lead to, and the timeline. What exceeds `maxBytes` follows in ChangeSets: synthetic ones, which leave a router's index
 * as it is, and a last one that leads to the index.
 */
export async function encodeState(
  events: Iterable<EncodedEvent>,
  index: bigint,
  timeline: string,
  maxBytes: number = MAX_STATE_BYTES,
): Promise<DataModelState> {
  const first: Buffer[] = [];
  const parts: Buffer[][] = [];
  const slice = new TimeSlice();
  let left = maxBytes;
  let room = 0;
  const write = (batch: readonly EncodedEvent[], size: number): void => {
    if (left > 0) {
      first.push(fields(STATE_EVENT, batch));
      left -= size;
      return;
    }
    if (room <= 0) {
      parts.push([]);
      room = PART_BYTES;
    }
    parts.at(-1)?.push(fields(SET_EVENT, batch));
    room -= size;
  };
  let batch: EncodedEvent[] = [];
  let size = 0;
  for (const event of events) {
    batch.push(event);
    size += event.length;
    const isTime = event.length > LONG_EVENT ? slice.isOver : slice.isDue;
    if (size < BATCH_BYTES && !isTime) continue;
    write(batch, size);
    batch = [];
    size = 0;
    if (slice.isOver) await slice.pause();
  }
  if (batch.length > 0) write(batch, size);
  const last = parts.length - 1;
  const isWhole = last < 0;
  const end = [
    Buffer.of(STATE_END_INDEX),
    varint(isWhole ? index : index - 1n),
    fields(STATE_TIMELINE, [isWhole ? timeline : timelineOfParts(timeline, index)]),
  ];
  const rest: Buffer[] = [];
  for (const [at, part] of parts.entries()) {
    const mark = at === last ? [] : [Buffer.of(SET_SYNTHETIC, 1)];
    rest.push(Buffer.concat([Buffer.of(SET_INDEX), varint(index), ...mark, ...part]));
    if (slice.isOver) await slice.pause();
  }
  return { index, body: Buffer.concat([...first, ...end]), rest };
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

/**
 * The timeline of a state that goes out in parts: it names the index that only the last part leads to, so that a router which lost its channel in between
 * does not count as one that has everything. Source: docs/protocol/data-model.md, "Large networks".
 */
function timelineOfParts(timeline: string, index: bigint): string {
  return `${timeline}/parts/${index}`;
}

/** Does a router that is at `index` of the timeline `given` have everything up to there of `timeline`? */
export function isOnTimeline(timeline: string, given: string, index: bigint): boolean {
  if (given === timeline) return true;
  const prefix = timelineOfParts(timeline, 0n).slice(0, -1);
  if (!given.startsWith(prefix)) return false;
  const end = given.slice(prefix.length);
  return /^\d{1,20}$/.test(end) && index >= BigInt(end);
}
