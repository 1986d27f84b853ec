import type { KubeObject, ResourceKind } from "../kinds.ts";
import type { WatchEvent, WatchOptions } from "./client.ts";
import { errorOfWatch, KubeError } from "./errors.ts";
import { LineReader } from "./line-reader.ts";
import { collectionPath, query } from "./paths.ts";
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
    ...(o.sendInitialEvents ? { sendInitialEvents: true, resourceVersionMatch: "NotOlderThan" } : {}),
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
  const why = cause instanceof Error ? cause.message : String(cause);
  return new KubeError({ status: 0, reason: "Unreachable", message: `GET ${path}: the watch was cut: ${why}`, cause });
}
