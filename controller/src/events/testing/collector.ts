import type { EventOutput } from "../dispatcher.ts";

/** Keeps what it is given. */
export function collector(): EventOutput & { readonly events: Record<string, unknown>[] } {
  const events: Record<string, unknown>[] = [];
  return { name: "collector", events, write: (_namespace, json) => void events.push(JSON.parse(json)) };
}
