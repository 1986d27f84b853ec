import { errorText } from "@sallyport/async";
import { collectionPath, type KubeObject, query, type ResourceKind } from "../kinds.ts";
import type { WatchEvent, WatchOptions } from "./client.ts";
import { errorOfWatch, KubeError } from "./errors.ts";
import type { Transport } from "./transport.ts";

/** Servers send a bookmark about once a minute: one that is silent for longer than this is asked again, which costs one request. */
const SILENCE_MS = 150_000;
const EVENT_TYPES: ReadonlySet<unknown> = new Set(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]);

/** One watch request as events; see {@link KubeClient.watch}. */
export async function* watchEvents<T extends KubeObject>(
  transport: Transport,
  kind: ResourceKind,
  o: WatchOptions,
  silenceMs = SILENCE_MS,
): AsyncGenerator<WatchEvent<T>> {
  const path = collectionPath(kind, o.namespace) + query(parametersOf(o));
  const silence = new AbortController();
  const signal = o.signal === undefined ? silence.signal : AbortSignal.any([o.signal, silence.signal]);
  const body = await transport.stream(path, signal);
  o.onOpen?.();
  const timer = setTimeout(() => silence.abort(), silenceMs);
  const lines = new LineReader();
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      timer.refresh();
      for (const line of lines.push(chunk)) yield eventOf<T>(`GET ${path}`, line);
    }
    lines.end();
  } catch (error) {
    // A server that says nothing for long ends like one that says so: the next request shows whether it lives.
    if (silence.signal.aborted || o.signal?.aborted) return;
    throw error instanceof KubeError ? error : cut(path, error);
  } finally {
    clearTimeout(timer);
    body.destroy();
  }
}

function parametersOf(o: WatchOptions): Record<string, string | number | boolean | undefined> {
  return {
    watch: true,
    allowWatchBookmarks: true,
    timeoutSeconds: o.timeoutSeconds ?? 300 + Math.floor(Math.random() * 301),
    resourceVersion: o.resourceVersion,
    labelSelector: o.labelSelector,
    fieldSelector: o.fieldSelector,
  };
}

function eventOf<T extends KubeObject>(asked: string, line: unknown): WatchEvent<T> {
  const { type, object } = (line ?? {}) as { readonly type?: unknown; readonly object?: unknown };
  if (type === "ERROR") throw errorOfWatch(asked, object);
  if (EVENT_TYPES.has(type) && typeof object === "object" && object !== null && "metadata" in object) {
    return { type: type as WatchEvent["type"], object: object as T };
  }
  throw new KubeError({
    status: 0,
    reason: "BadAnswer",
    message: `${asked}: "${String(type)}" is no event of a watch`,
  });
}

function cut(path: string, cause: unknown): KubeError {
  const why = errorText(cause);
  return new KubeError({ status: 0, reason: "Unreachable", message: `GET ${path}: the watch was cut: ${why}`, cause });
}

/** The largest event: an object has at most a mebibyte and a half, its bookkeeping can double that. */
const LINE_LIMIT = 16 * 1024 * 1024;
const NEWLINE = 10;

/** Cuts a stream of bytes into JSON values, one a line. A broken line, or one that the end of the stream cuts, is an error: something was missed. */
export class LineReader {
  readonly #limit: number;
  #parts: Buffer[] = [];
  #length = 0;

  constructor(limit = LINE_LIMIT) {
    this.#limit = limit;
  }

  *push(chunk: Buffer): Iterable<unknown> {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(NEWLINE, start);
      const rest = chunk.subarray(start, end < 0 ? undefined : end);
      this.#length += rest.length;
      if (this.#length > this.#limit) throw badStream(`a line has more than ${this.#limit} bytes`);
      if (end < 0) {
        if (rest.length > 0) this.#parts.push(Buffer.from(rest));
        return;
      }
      const line = this.#parts.length === 0 ? rest : Buffer.concat([...this.#parts, rest]);
      this.#parts = [];
      this.#length = 0;
      start = end + 1;
      if (line.length > 0) yield parse(line);
    }
  }

  /** The stream ended. */
  end(): void {
    if (this.#length > 0) throw badStream(`the stream ended within a line, after ${this.#length} bytes of it`);
  }
}

function parse(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString("utf8"));
  } catch (cause) {
    throw badStream("a line is no JSON", cause);
  }
}

function badStream(message: string, cause?: unknown): KubeError {
  return new KubeError({ status: 0, reason: "BadAnswer", message: `watch: ${message}`, cause });
}
