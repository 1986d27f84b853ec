import { randomUUID } from "node:crypto";
import { fieldError } from "@sallyport/api";
import { parseDuration } from "@sallyport/config-file";
import { TraceChannel } from "@sallyport/wire";

export interface Trace {
  readonly traceId: string;
  readonly until: Date;
  /** Bits of `TraceChannel`. */
  readonly channelMask: number;
}

/** A year: beyond that a time is a mistake, and dates come to an end. */
const MAX_DURATION_MS = 366 * 86_400_000;
const MAX_TRACE_ID_CHARACTERS = 200;

/** What an administrator may name. */
const CHANNELS = {
  all: TraceChannel.All,
  selectPath: TraceChannel.SelectPath,
  establishPath: TraceChannel.EstablishPath,
};
type Channel = keyof typeof CHANNELS;

/** Identities whose circuits are traced, each until a time. In memory: a restart ends them. */
export class Traces {
  readonly #traces = new Map<string, Trace>();
  readonly #now: () => Date;

  constructor(now: () => Date) {
    this.#now = now;
  }

  /** @throws ApiError 400 on `duration`, or `traceId` */
  enable(
    identityId: string,
    spec: { readonly duration: string; readonly traceId: string; readonly channels: readonly Channel[] },
  ): Trace {
    const durationMs = parseDuration(spec.duration.replaceAll(" ", ""), { days: true });
    if (durationMs === undefined || durationMs < 0 || durationMs > MAX_DURATION_MS) {
      throw fieldError("duration", "duration must be a time of at most 366 days, such as 10m or 1h30m", spec.duration);
    }
    if (spec.traceId.length > MAX_TRACE_ID_CHARACTERS) {
      throw fieldError("traceId", `traceId may have ${MAX_TRACE_ID_CHARACTERS} characters`, spec.traceId);
    }
    const now = this.#now();
    for (const [id, { until }] of this.#traces) if (until <= now) this.#traces.delete(id);
    const trace: Trace = {
      traceId: spec.traceId === "" ? randomUUID() : spec.traceId,
      until: new Date(now.getTime() + durationMs),
      channelMask: maskOf(spec.channels),
    };
    this.#traces.set(identityId, trace);
    return trace;
  }

  disable(identityId: string): void {
    this.#traces.delete(identityId);
  }

  /** Undefined when the identity is not traced (any more). */
  of(identityId: string): Trace | undefined {
    const trace = this.#traces.get(identityId);
    return trace !== undefined && trace.until > this.#now() ? trace : undefined;
  }
}

function maskOf(channels: readonly Channel[]): number {
  if (channels.length === 0) return TraceChannel.All;
  // Of all bits an unsigned number.
  return channels.reduce((mask, channel) => mask | CHANNELS[channel], 0) >>> 0;
}
