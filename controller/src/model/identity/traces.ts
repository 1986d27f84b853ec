import { randomUUID } from "node:crypto";
import { fieldError } from "@sallyport/api";
import { parseDuration } from "@sallyport/controller-config";

export interface Trace {
  readonly traceId: string;
  readonly until: Date;
  /** Empty: all of them. */
  readonly channels: readonly string[];
}

/** A year: beyond that a time is a mistake, and dates come to an end. */
const MAX_DURATION_MS = 366 * 86_400_000;
const MAX_TRACE_ID_CHARACTERS = 200;
const MAX_CHANNELS = 100;

/** Identities whose circuits are traced, each until a time. In memory: a restart ends them. */
export class Traces {
  readonly #traces = new Map<string, Trace>();
  readonly #now: () => Date;

  constructor(now: () => Date) {
    this.#now = now;
  }

  /** @throws ApiError 400 on `duration`, `traceId` or `channels` */
  enable(
    identityId: string,
    spec: { readonly duration: string; readonly traceId: string; readonly channels: readonly string[] },
  ): Trace {
    const durationMs = parseDuration(spec.duration);
    if (durationMs === undefined || durationMs > MAX_DURATION_MS) {
      throw fieldError("duration", "duration must be a time of at most 366 days, such as 10m or 1h30m", spec.duration);
    }
    if (spec.traceId.length > MAX_TRACE_ID_CHARACTERS) {
      throw fieldError("traceId", `traceId may have ${MAX_TRACE_ID_CHARACTERS} characters`, spec.traceId);
    }
    if (spec.channels.length > MAX_CHANNELS) {
      throw fieldError("channels", `at most ${MAX_CHANNELS} channels can be named`, spec.channels.length);
    }
    this.#dropExpired();
    const trace: Trace = {
      traceId: spec.traceId === "" ? randomUUID() : spec.traceId,
      until: new Date(this.#now().getTime() + durationMs),
      channels: spec.channels.includes("all") ? [] : spec.channels,
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

  #dropExpired(): void {
    const now = this.#now();
    for (const [id, { until }] of this.#traces) if (until <= now) this.#traces.delete(id);
  }
}
