/** The small controllers of the cluster itself: they look at everything, do what is missing, and wait for the next change. */

import { setTimeout as delay } from "node:timers/promises";
import { errorText } from "@sallyport/async";
import type { KubeApi, KubeList, KubeObject } from "./kube-api.ts";

/** Collections by name. */
type Paths = Readonly<Record<string, string>>;
export type Found<Kinds> = { readonly [Name in keyof Kinds]: readonly Kinds[Name][] };

/**
 * Does a round at the beginning and after every change of one of the collections, until the signal. What fails is said and
 * tried again half a second later: an API server that is away is waited for.
 */
export async function keepUp<Kinds extends Readonly<Record<string, KubeObject>>>(
  what: string,
  api: KubeApi,
  collections: { readonly [Name in keyof Kinds]: string },
  round: (found: Found<Kinds>) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const paths = Object.entries(collections as Paths);
  while (!signal.aborted) {
    const changed = new AbortController();
    try {
      const lists = await Promise.all(paths.map(async ([, path]) => await api.get<KubeList<KubeObject>>(path)));
      await round(Object.fromEntries(paths.map(([name], i) => [name, lists[i]?.items ?? []])) as Found<Kinds>);
      const either = AbortSignal.any([changed.signal, signal]);
      await Promise.race(
        paths.map(([, path], i) => api.nextChange(path, lists[i]?.metadata.resourceVersion ?? "", either)),
      );
    } catch (error) {
      if (signal.aborted) return;
      console.error(`${what}: ${errorText(error)}`);
      await delay(500);
    } finally {
      changed.abort();
    }
  }
}
