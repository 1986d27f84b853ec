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

/** What an administrator asks for. */
export interface TraceWish {
  readonly duration: string;
  readonly traceId: string;
  readonly channels: readonly Channel[];
}

interface KeptTrace {
  readonly trace: Trace;
  /** It was enabled at this controller. */
  readonly isOwn: boolean;
}

/** Identities whose circuits are traced, each until a time. In memory: a restart ends them. */
export class Traces {
  readonly #traces = new Map<string, KeptTrace>();
  readonly #now: () => Date;

  constructor(now: () => Date) {
    this.#now = now;
  }

  /** @throws ApiError 400 on `duration`, or `traceId` */
  enable(identityId: string, spec: TraceWish): Trace {
    const durationMs = parseDuration(spec.duration.replaceAll(" ", ""), { days: true });
    if (durationMs === undefined || durationMs < 0 || durationMs > MAX_DURATION_MS) {
      throw fieldError("duration", "duration must be a time of at most 366 days, such as 10m or 1h30m", spec.duration);
    }
    if (spec.traceId.length > MAX_TRACE_ID_CHARACTERS) {
      throw fieldError("traceId", `traceId may have ${MAX_TRACE_ID_CHARACTERS} characters`, spec.traceId);
    }
    const trace: Trace = {
      traceId: spec.traceId === "" ? randomUUID() : spec.traceId,
      until: new Date(this.#now().getTime() + durationMs),
      channelMask: maskOf(spec.channels),
    };
    this.#keep(identityId, { trace, isOwn: true });
    return trace;
  }

  /** One that was enabled at another controller. */
  set(identityId: string, trace: Trace): void {
    this.#keep(identityId, { trace, isOwn: false });
  }

  /** Those that were enabled at this controller, and have not ended. */
  own(): { readonly identityId: string; readonly trace: Trace }[] {
    const now = this.#now();
    return [...this.#traces].flatMap(([identityId, { trace, isOwn }]) =>
      isOwn && trace.until > now ? [{ identityId, trace }] : [],
    );
  }

  disable(identityId: string): void {
    this.#traces.delete(identityId);
  }

  /** Undefined when the identity is not traced (any more). */
  of(identityId: string): Trace | undefined {
    const trace = this.#traces.get(identityId)?.trace;
    return trace !== undefined && trace.until > this.#now() ? trace : undefined;
  }

  #keep(identityId: string, kept: KeptTrace): void {
    const now = this.#now();
    for (const [id, { trace }] of this.#traces) if (trace.until <= now) this.#traces.delete(id);
    this.#traces.set(identityId, kept);
  }
}

function maskOf(channels: readonly Channel[]): number {
  if (channels.length === 0) return TraceChannel.All;
  // Of all bits an unsigned number.
  return channels.reduce((mask, channel) => mask | CHANNELS[channel], 0) >>> 0;
}
